"""A program's past, pure: its birth log, the states that shorten it, the histories that outlive it."""
