"""The key of a home: `$LLFT_HOME/key`, made when the first group starts there and nobody named another.

Group ids follow from names, and loopback is shared by all users of a host: without a key, two groups called
"bank" in two homes would be one group. Groups of one home share its key, so that they can connect to
one another.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

KEY_BYTES = 32


def home_key(home: Path) -> Path:
    """The file, made if it is not there."""
    path = home / "key"
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = home / f".key-{os.getpid()}"
    if not path.exists():
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "w") as file:
            file.write(f"1:{secrets.token_hex(KEY_BYTES)}\n")
        with suppress(FileExistsError):
            os.link(draft, path)  # whole or not at all, and the first one wins
        draft.unlink()
    return path
