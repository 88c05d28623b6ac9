"""Network and batches → trained network."""
