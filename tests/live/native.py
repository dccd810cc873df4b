"""Tests of the native parts need them: `make setup` compiles them where there is a C compiler."""

from __future__ import annotations

import os

import pytest

from llft.runtime.native.build import build

needs_native = pytest.mark.skipif(
    not build(os.environ)[0], reason="no C compiler, and nothing compiled; as root: apt-get install gcc"
)
