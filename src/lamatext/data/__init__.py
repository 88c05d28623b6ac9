"""Text → tokens → ids: reading, splitting, encoding."""
