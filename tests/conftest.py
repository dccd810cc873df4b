"""For all tests. A busy machine is no error: what hypothesis says of the speed of generating data is not asked for."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy")
