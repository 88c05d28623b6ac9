"""Explanations of predictions as numbers: contributions, attention weights, faithfulness."""
