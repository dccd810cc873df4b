"""Large blocks of the birth log as mappings of their own, which a copy of the process has nothing of.

An image is written by such a copy, and nobody needs the log before an image.
"""

from __future__ import annotations

import mmap
from contextlib import suppress
from typing import Final

MADV_WIPEONFORK: Final = 18


def mapped(size: int) -> memoryview:
    found = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # an older kernel: then images are larger
        found.madvise(MADV_WIPEONFORK)
    return memoryview(found)
