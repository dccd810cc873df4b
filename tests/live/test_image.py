"""Process images by themselves: a threaded interpreter, written out and restored into a fresh process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from llft.runtime.native import image
from llft.runtime.native.build import library
from tests.live.native import needs_native

PATIENCE_S = 100

pytestmark = needs_native


def run(*words: str, randomised: bool = False) -> subprocess.CompletedProcess[str]:
    def arrange() -> None:
        if not randomised:
            assert image.stop_randomising()

    command = [sys.executable, "-m", "tests.live.image_program", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=arrange, check=False
    )


def test_a_restored_process_goes_on_like_the_original(tmp_path: Path) -> None:
    path = str(tmp_path / "image")
    original = run(path, "20")
    assert original.returncode == 0, original.stderr
    _, first, digest = original.stdout.splitlines()
    assert first == "image"
    for _ in range(3):
        restored = run("--restore", path)
        assert restored.returncode == 0, restored.stderr
        assert restored.stdout.splitlines() == ["restored", digest]


def test_what_is_no_image_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "image"
    path.write_bytes(b"nothing" * 1000)
    refused = run("--restore", str(path))
    assert refused.returncode == 1
    assert "it is no image of this version" in refused.stderr


def test_an_image_is_refused_where_addresses_are_randomised(tmp_path: Path) -> None:
    path = str(tmp_path / "image")
    assert run(path, "0").returncode == 0
    refused = run("--restore", path, randomised=True)
    assert refused.returncode == 1
    assert "addresses are randomised" in refused.stderr


def test_an_image_of_other_libraries_is_refused(tmp_path: Path) -> None:
    path, own = str(tmp_path / "image"), tmp_path / "own.so"
    own.write_bytes(Path(library()).read_bytes())
    assert run(path, "0", str(own)).returncode == 0
    with open(own, "ab") as file:
        file.write(b"\0")
    refused = run("--restore", path)
    assert refused.returncode == 1
    assert "differs from the image's" in refused.stderr
