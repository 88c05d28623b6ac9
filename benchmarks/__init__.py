"""Benchmarks of speed and memory: lamatext and its alternatives in one run, reported as ratios."""
