"""Timeout tuning as the probabilistic optimisation that the paper calls it: see docs/TUNING.md."""
