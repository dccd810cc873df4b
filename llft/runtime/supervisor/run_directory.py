"""Everything about a group on this host: `$LLFT_HOME/<group>`.

A supervisor holds its run directory by a lock on `supervisor.pid`. The lock goes with the process, however
that ends, so a stale directory is known for sure: its lock can be had. Pid numbers alone could not tell,
they are used again.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import time
from pathlib import Path

from llft.errors import MisuseError

GROUP_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
SOCKET_PATH_LIMIT = 107
"""Of `sockaddr_un`, without the closing zero."""

_CLAIM_ATTEMPTS = 10
_CLAIM_PAUSE_S = 0.01
REPLICA_NUMBER_MAX = 999
_LONGEST_SOCKET_NAME = f"replica-{REPLICA_NUMBER_MAX}.sock"


def llft_home() -> Path:
    """`$LLFT_HOME`, else `$XDG_RUNTIME_DIR/llft`, else `/tmp/llft-<uid>`."""
    if named := os.environ.get("LLFT_HOME"):
        return Path(named).absolute()
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "llft"
    return Path(f"/tmp/llft-{os.getuid()}")


class RunDirectory:
    """The paths of one group's run directory, and the right to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock_fd = -1

    @classmethod
    def of_group(cls, group: str) -> RunDirectory:
        if not GROUP_NAME.fullmatch(group):
            remedy = "at most 64 letters, digits, dots, dashes and underscores, a letter or a digit first"
            raise MisuseError("bad-group-name", remedy, group=group)
        return cls(llft_home() / group)

    @property
    def group(self) -> str:
        return self.path.name

    @property
    def supervisor_socket(self) -> Path:
        return self.path / "supervisor.sock"

    @property
    def journal(self) -> Path:
        return self.path / "journal"

    @property
    def durable(self) -> Path:
        """The replicas' histories; they stay until somebody removes them."""
        return self.path / "durable"

    @property
    def data(self) -> Path:
        """The replicas' copies of the data directory; they stay like those."""
        return self.path / "data"

    @property
    def pid_file(self) -> Path:
        return self.path / "supervisor.pid"

    def socket(self, name: str) -> Path:
        return self.path / f"{name}.sock"

    def log(self, name: str) -> Path:
        return self.path / f"{name}.log"

    def temporary(self, name: str) -> Path:
        """The directory for the temporary files of one replica's program."""
        return self.path / f"{name}.tmp"

    def claim(self) -> None:
        """Take the directory for this process; refused while another supervisor has it."""
        self._check()
        for _ in range(_CLAIM_ATTEMPTS):
            self._lock_fd = os.open(self.pid_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if self._lock():
                os.ftruncate(self._lock_fd, 0)
                os.write(self._lock_fd, f"{os.getpid()}\n".encode())
                self._clean()
                return
            self._close_lock()
            # `llft status` looks at the lock for an instant; a supervisor keeps it.
            time.sleep(_CLAIM_PAUSE_S)
        pid = self.holder()
        remedy = f"see llft status; end it with Ctrl-C or kill {pid}, or choose another --group"
        raise MisuseError("group-already-runs", remedy, group=self.group, pid=pid)

    def release(self) -> None:
        """Remove sockets, states, temporary files and pid file; journals and logs remain."""
        if self._lock_fd < 0:
            return
        self._remove_sockets()
        self._remove_states()
        for path in self.path.glob("*.tmp"):
            shutil.rmtree(path)
        self.pid_file.unlink(missing_ok=True)
        self._close_lock()

    def holder(self) -> int | None:
        """The pid of the supervisor that has the directory; None: nobody."""
        try:
            fd = os.open(self.pid_file, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            text = os.read(fd, 32).decode(errors="replace").strip()
            return int(text) if text.isdecimal() else None
        finally:
            os.close(fd)
        return None

    def _lock(self) -> bool:
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last holder may have removed the file between our opening and our locking it.
            return os.fstat(self._lock_fd).st_ino == self.pid_file.stat().st_ino
        except (BlockingIOError, FileNotFoundError):
            return False

    def _check(self) -> None:
        if len(os.fsencode(self.path / _LONGEST_SOCKET_NAME)) > SOCKET_PATH_LIMIT:
            raise MisuseError(
                "run-directory-path-too-long", "set LLFT_HOME to a short path", path=str(self.path)
            )
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            owner = self.path.stat().st_uid
        except OSError as error:
            remedy = "set LLFT_HOME to a directory that can be written"
            raise MisuseError("run-directory-unusable", remedy, path=str(self.path), why=str(error)) from None
        # In /tmp somebody else could have made it first, and would see and steer our control sockets.
        if owner != os.getuid():
            remedy = "it belongs to another user: set LLFT_HOME to a directory of your own"
            raise MisuseError("run-directory-not-ours", remedy, path=str(self.path))

    def _clean(self) -> None:
        """What an earlier run left: its sockets and states go, its logs and journals move to `previous/`."""
        self._remove_sockets()
        self._remove_states()
        previous = self.path / "previous"
        left = [*self.path.glob("*.log"), *self.path.glob("journal")]
        if left:
            shutil.rmtree(previous, ignore_errors=True)
            previous.mkdir()
            for path in left:
                path.rename(previous / path.name)
        self.journal.mkdir()

    def _remove_sockets(self) -> None:
        """And what else says that a process lives: its number, its lifeline."""
        for pattern in ("*.sock", "gateway*.id", "life-*"):
            for path in self.path.glob(pattern):
                path.unlink(missing_ok=True)

    def _remove_states(self) -> None:
        """Of replicas that were killed: an image has all that a program had in its memory. What a history
        needs has a name in `durable/` as well."""
        for pattern in ("replica-*.state-*", "replica-*.scratch.*"):
            for path in self.path.glob(pattern):
                if not path.is_dir():
                    path.unlink(missing_ok=True)

    def _close_lock(self) -> None:
        os.close(self._lock_fd)
        self._lock_fd = -1


def running_groups(only: str | None = None) -> list[RunDirectory]:
    """The groups that a supervisor runs on this host, by name."""
    home = llft_home()
    if only is not None:
        candidates = [RunDirectory.of_group(only)]
    else:
        paths = sorted(home.iterdir()) if home.is_dir() else []
        candidates = [RunDirectory(path) for path in paths if path.is_dir()]
    return [candidate for candidate in candidates if candidate.holder() is not None]


def the_group(name: str | None) -> RunDirectory:
    """The group named, or the only one that runs."""
    running = running_groups(name)
    if len(running) == 1:
        return running[0]
    if name is not None:
        raise MisuseError("group-does-not-run", "see llft status", group=name, home=str(llft_home()))
    if not running:
        raise MisuseError("no-group-runs", "start one with llft run", home=str(llft_home()))
    raise MisuseError("several-groups-run", "choose with --group", groups=[found.group for found in running])
