"""The servers of the live tests: how each is started, and a request that it answers."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
DIRECTORY = ROOT / "tests" / "live" / "applications"
BODY = json.dumps(["client", 1, 7])


@dataclass(frozen=True, slots=True)
class Application:
    words: tuple[str, ...]
    path: str = "/"
    """Empty: it speaks lines, and not HTTP."""

    def request(self) -> dict[str, Any]:
        if not self.path:
            return {"text": f"{BODY}\n", "reply": "line"}
        head = f"POST {self.path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return {"text": f"{head}Content-Length: {len(BODY)}\r\n\r\n{BODY}", "reply": "http"}

    def command(self, port: int, host: str) -> list[str]:
        """They all serve the loopback interface, whatever the host is called."""
        program, *more = self.words
        return [sys.executable, str(DIRECTORY / program), str(port), *more]


APPLICATIONS = {
    "socketserver": Application(("kv_locked.py",), path=""),
    "http.server": Application(("http_plain.py",)),
    "flask-waitress": Application(("flask_waitress.py",)),
    "fastapi-h11": Application(("fastapi_uvicorn.py", "h11"), path="/odd"),
    "fastapi-httptools": Application(("fastapi_uvicorn.py", "httptools"), path="/odd"),
    "fastapi-pool": Application(("fastapi_uvicorn.py", "httptools"), path="/even"),
    "aiohttp": Application(("aiohttp_plain.py",)),
}
