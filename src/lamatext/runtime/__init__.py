"""Inference with a saved model, without torch."""
