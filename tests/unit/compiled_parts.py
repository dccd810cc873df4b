"""Extension modules of the compiled lane, beside the reference lane that tests run on."""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from llft.lane import choice


def compiled_part(name: str) -> Any:
    """By its full name; the test is skipped where it is not compiled."""
    if choice.why_not():
        pytest.skip(choice.why_not())
    directory, _, last = name.replace(".", "/").rpartition("/")
    (path,) = Path(choice.directory(), directory).glob(f"{last}.*.so")
    loader = ExtensionFileLoader(name, str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module
