"""The process that asyncio thinks its loops run in, moved."""

from __future__ import annotations

import asyncio
import os

import pytest

from llft.errors import UnsupportedOperationError
from llft.runtime.state import running_loops


def test_a_loop_is_denied_in_another_process_and_had_again_when_it_is_moved() -> None:
    async def look() -> tuple[bool, bool]:
        loop, pid = asyncio.get_running_loop(), os.getpid()
        running_loops.move(pid, pid + 1)
        denied = asyncio._get_running_loop() is None
        running_loops.move(pid + 1, pid)
        return denied, asyncio.get_running_loop() is loop

    assert asyncio.run(look()) == (True, True)


def test_nothing_is_written_where_the_old_id_is_not() -> None:
    async def look() -> bool:
        with pytest.raises(UnsupportedOperationError, match="running_loop_unknown"):
            running_loops.move(-5, 1)
        return asyncio._get_running_loop() is not None

    assert asyncio.run(look())
