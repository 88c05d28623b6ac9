"""The paper as commands: its protocol, and every table and figure with the published values."""
