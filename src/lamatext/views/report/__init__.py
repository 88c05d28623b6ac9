"""The report: one HTML page on a model's data, scores, mistakes, top words and faithfulness."""
