"""Hardening campaigns: kills, disk faults, fuzzing and server attacks; outside the product."""
