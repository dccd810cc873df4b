"""Packing and unpacking in C (`llft/journal/packing.c`), beside the reference lane that tests run on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import NamedTuple

from llft.journal import packed
from llft.journal.packed import Packed, Strip
from llft.journal.record import Record
from llft.lane import choice


class InC(NamedTuple):
    pack: Callable[[Strip], list[Packed] | None]
    unpack: Callable[[bytes], list[Record] | None]


def load_in_c() -> InC:
    """Of the compiled lane, which is there (`choice.why_not`)."""
    (path,) = Path(choice.directory(), "llft/journal").glob("packing.*.so")
    loader = ExtensionFileLoader("llft.journal.packing", str(path))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    module.know(packed.KNOWN, packed.WORDS)
    return InC(module.pack, module.unpack)


@contextmanager
def packing(in_c: InC | None) -> Iterator[None]:
    """So, and not in C without one."""
    before = packed.pack_in_c, packed.unpack_in_c
    packed.pack_in_c, packed.unpack_in_c = in_c or (None, None)
    try:
        yield
    finally:
        packed.pack_in_c, packed.unpack_in_c = before
