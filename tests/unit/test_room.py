"""Room for images: on the disk that they lie on, and in memory."""

from __future__ import annotations

from pathlib import Path

from llft.runtime.state.room import lacking, own_bytes

NO_DISK = "/proc"
"""A file system without a free block."""


def test_a_small_program_finds_room(tmp_path: Path) -> None:
    assert lacking(str(tmp_path), 1 << 20) == ""


def test_what_would_not_fit_into_memory_is_not_tried(tmp_path: Path) -> None:
    assert "too little memory" in lacking(str(tmp_path), 1 << 50)


def test_what_would_fill_the_disk_is_not_written() -> None:
    assert lacking(NO_DISK, 1 << 20) == f"there is too little room for images in {NO_DISK}"


def test_a_process_knows_about_how_large_its_image_would_be() -> None:
    before = own_bytes()
    large = bytearray(b"x" * (64 << 20))
    assert own_bytes() - before > len(large) // 2
