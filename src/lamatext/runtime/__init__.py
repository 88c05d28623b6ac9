"""A saved model at work, without torch."""
