"""Benchmarks: ours and the baselines' in one run, as ratios."""
