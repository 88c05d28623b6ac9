"""Fast paths for training: GRU and attention kernels, each with a plain torch reference."""
