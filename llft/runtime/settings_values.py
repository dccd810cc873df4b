"""One value of `llft.toml` each: what it must be, and what to write instead (ValueError)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from llft.runtime.settings import Endpoint, FaultInjection

Reader = Callable[[Any], Any]


def integer(least: int, most: int) -> Reader:
    def read(value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise ValueError(f"a whole number from {least} to {most}")
        return value

    return read


def number(least: float, most: float) -> Reader:
    def read(value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise ValueError(f"a number from {least} to {most}")
        return value

    return read


def one_of(kind: type[Enum]) -> Reader:
    def read(value: Any) -> Enum:
        for each in kind:
            if each.value == value:
                return each
        raise ValueError("one of " + ", ".join(f'"{each.value}"' for each in kind))

    return read


def truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("true or false")
    return value


def text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError('a text in ""')
    return value


def is_ip(text: str) -> bool:
    parts = text.split(".")
    return len(parts) == 4 and all(part.isascii() and part.isdigit() and int(part) < 256 for part in parts)


def ip(value: Any) -> str:
    if not isinstance(value, str) or not is_ip(value):
        raise ValueError('an IPv4 address of this host, as "10.0.0.5"')
    return value


def endpoints(value: Any) -> tuple[Endpoint, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise ValueError('a list as ["host:port", ...]')
    found = []
    for each in value:
        host, _, port = each.rpartition(":")
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ValueError(f'"host:port" for {each!r}, with a port from 1 to 65535')
        found.append(Endpoint(host, int(port)))
    return tuple(found)


def fault_injection(value: Any) -> FaultInjection:
    known = {name: number(0.0, 1.0) for name in ("loss", "duplicate", "reorder", "kernel_loss")}
    known["seed"] = integer(0, (1 << 63) - 1)
    if not isinstance(value, Mapping) or not set(value) <= set(known):
        raise ValueError(f"a table of {', '.join(known)}")
    return FaultInjection(**{name: known[name](inner) for name, inner in value.items()})


def absolute(value: Any) -> str:
    """ "" is none."""
    if not isinstance(value, str) or (value and not value.startswith("/")):
        raise ValueError('an absolute path, as "/srv/shop"')
    return value
