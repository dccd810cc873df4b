"""The time slice that replicas ask for, as the kernel tells it."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import subprocess
import sys
import time

import pytest

from llft.runtime.supervisor.slot import start_child
from llft.runtime.time_slice import SHORT_NS

GETATTR = {"x86_64": 315, "aarch64": 275}.get(platform.machine())
RUNTIME_PLACE = 24


def slice_of(pid: int) -> int:
    """0 where the kernel knows of none."""
    assert GETATTR is not None
    attributes = ctypes.create_string_buffer(56)
    assert ctypes.CDLL(None).syscall(GETATTR, pid, attributes, len(attributes), 0) == 0
    return int(struct.unpack_from("=Q", attributes.raw, RUNTIME_PLACE)[0])


@pytest.mark.skipif(GETATTR is None or not slice_of(0), reason="this kernel has no slices to ask for")
def test_what_the_supervisor_starts_has_a_short_slice_and_the_usual_priority() -> None:
    usual = slice_of(0)
    child = start_child(
        [sys.executable, "-c", "import time; time.sleep(60)"], dict(os.environ), output=subprocess.DEVNULL
    )
    try:
        until_s = time.monotonic() + 10
        while slice_of(child.pid) != SHORT_NS and time.monotonic() < until_s:
            time.sleep(0.01)
        assert slice_of(child.pid) == SHORT_NS
        assert os.getpriority(os.PRIO_PROCESS, child.pid) == os.getpriority(os.PRIO_PROCESS, 0)
        assert slice_of(0) == usual, "its own is as it was"
    finally:
        child.kill()
        child.wait()
