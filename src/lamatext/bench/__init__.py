"""Benchmarks: ours and the rivals' in one run, as ratios."""
