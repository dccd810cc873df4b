"""For all tests. A busy machine is no error: hypothesis is not asked how fast data are generated."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy")
