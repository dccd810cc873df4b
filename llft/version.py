"""The version, as the installed package's metadata has it: `pyproject.toml` is its only source."""

from __future__ import annotations

from importlib import metadata


def version() -> str:
    """Of the installed package; a tree that was never installed has none to tell."""
    try:
        return metadata.version("llft")
    except metadata.PackageNotFoundError:
        return "not installed"
