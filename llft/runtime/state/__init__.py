"""Checkpoints: sources of state, their verification, and what is dropped after it (docs/CHECKPOINTS.md)."""
