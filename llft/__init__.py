"""Low Latency Fault Tolerance."""

from llft.lane import choice

choice.install()
