"""Application transparency: Python's own modules replaced under an unmodified program (D-16, D-17, D-18)."""
