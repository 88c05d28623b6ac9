"""Inference with saved models; only the models ``te`` and ``bert`` need torch."""
