"""The linear model on n-grams: features, fitting, inference."""
