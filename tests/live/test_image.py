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


DEAF = """
import signal, threading, time
from llft.runtime.native import image
ready = threading.Event()
def deaf():
    signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))
    ready.set()
    time.sleep(3600)
threading.Thread(target=deaf, daemon=True).start()
ready.wait()
began_ns = time.monotonic_ns()
try:
    image.take("/nowhere/image", "/nowhere")
except image.ImageError as error:
    print(error, time.monotonic_ns() - began_ns, sep="\\n")
"""


def test_a_thread_that_blocks_signals_is_not_waited_for() -> None:
    """The program stands still meanwhile, and this would be so at every attempt."""
    found = run_code(DEAF)
    reason, paused_ns = found.stdout.splitlines()
    assert reason == "a thread cannot be stopped: it blocks signals"
    assert int(paused_ns) < 200_000_000, "far less than for a thread that is merely late"


HANDLED = """
import signal
from llft.runtime.native import image
signal.signal(signal.SIGRTMAX - 3, lambda number, frame: None)
try:
    image.take("/nowhere/image", "/nowhere")
except image.ImageError as error:
    print(error)
"""


def test_a_signal_that_is_the_programs_is_left_to_it() -> None:
    assert "a use of its own for the signal" in run_code(HANDLED).stdout


def test_only_what_lasts_ends_a_replica_for_good(tmp_path: Path) -> None:
    """An image that is not there now may be there later; one of something else will not change."""
    other = tmp_path / "other"
    other.write_bytes(b"nothing" * 1000)
    for path, lasts in ((tmp_path / "missing", False), (other, True)):
        code = f"from llft.runtime.native import image\ntry:\n    image.restore({str(path)!r}, 598)\n"
        found = run_code(f"{code}except image.ImageError as error:\n    print(error.lasts)\n")
        assert found.stdout == f"{lasts}\n", found.stderr


def run_code(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, preexec_fn=never_random, check=False
    )


def never_random() -> None:
    assert image.stop_randomising()


def test_an_image_of_other_libraries_is_refused(tmp_path: Path) -> None:
    path, own = str(tmp_path / "image"), tmp_path / "own.so"
    own.write_bytes(Path(library()).read_bytes())
    assert run(path, "0", str(own)).returncode == 0
    with open(own, "ab") as file:
        file.write(b"\0")
    refused = run("--restore", path)
    assert refused.returncode == 1
    assert "differs from the image's" in refused.stderr
