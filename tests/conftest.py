"""For all tests. A busy machine is no error: hypothesis is not asked how fast data are generated.

Tests look into the modules, put others in their place and plant bugs in them, so they run on the reference
lane; the processes that they start run on the compiled one if it is there, and `simulation/test_lanes.py`
compares the two. `LLFT_LANE=compiled` tests the compiled modules in place, as far as that goes.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

_wanted = os.environ.get("LLFT_LANE")
os.environ.setdefault("LLFT_LANE", "reference")
from llft.lane import choice  # noqa: E402 (the choice is made here, once)

if _wanted is None:
    del os.environ["LLFT_LANE"]

settings.register_profile("busy", suppress_health_check=[HealthCheck.too_slow], deadline=None)
settings.load_profile("busy")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if choice.in_use() == "compiled":
        left_out = [item for item in items if item.get_closest_marker("reference")]
        items[:] = [item for item in items if not item.get_closest_marker("reference")]
        config.hook.pytest_deselected(items=left_out)
