"""Training: preparation, training loop, checkpoints, calibration."""
