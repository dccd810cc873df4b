"""`llft bench`'s figures that compare: LLFT and plain TCP, in turns, with the same unmodified programs."""
