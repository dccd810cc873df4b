"""The two lanes: the modules of the hot path as plain Python, and the same modules compiled."""
