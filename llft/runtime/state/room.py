"""Whether there is room for one more image: where images are kept, and in memory, for the process that tries
it.

Images are taken without anybody having asked for them. A disk that they fill would be the journals' as well,
and memory that they use up would be the replicas'.
"""

from __future__ import annotations

import posix

IMAGES = 4
"""So many more than the one that is taken must find room: the journals lie there, and others' images."""
COPIES = 2
"""What the program writes to while the image is written is there twice, and once more where it is tried."""
_PAGE_BYTES = 4096
_statvfs = posix.statvfs


def lacking(directory: str, image_bytes: int) -> str:
    """What there is too little of; "": there is enough. The words stay the same while that lasts."""
    if _available_bytes() < COPIES * image_bytes:
        return "there is too little memory to try an image"
    disk = _statvfs(directory)
    if disk.f_bavail * disk.f_frsize < IMAGES * image_bytes:
        return f"there is too little room for images in {directory}"
    return ""


def own_bytes() -> int:
    """Of this process, and of no file: as large an image would be."""
    with open("/proc/self/statm", "rb", buffering=0) as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * _PAGE_BYTES


def _available_bytes() -> int:
    with open("/proc/meminfo", "rb", buffering=0) as file:
        lines = dict(line.split(b":", 1) for line in file.read().splitlines())
    return int(lines[b"MemAvailable"].split()[0]) * 1024
