"""One TOML file a recipe."""
