"""A program's past in the world: as `llft.runtime.state` keeps it, by the same `llft.past`."""
