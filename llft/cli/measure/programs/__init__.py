"""Ordinary programs, which know nothing of LLFT. They are started by their paths, with it and without it."""
