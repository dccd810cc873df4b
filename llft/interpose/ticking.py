"""Loops that wait for another thread without calling anything: `while not flag: pass`.

Under the token nobody else would ever run. So every `while` of the program, and of what it imports, begins
its body with a tick: a check point. The compiled code is kept under a tag of its own, so that no other
interpreter runs it, and in the user's cache directory: beside the sources it may be unwelcome (many
environments set PYTHONDONTWRITEBYTECODE), and without it every replica would compile everything at its start.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import os
import sys
from contextlib import suppress
from types import CodeType
from typing import Any

from llft.interpose import hashing, passage

NAME = "__llft_tick__"
TAG = "llft1"
"""Another one whenever the code below writes something else."""

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Where statements are inside statements. Expressions hold neither loops nor classes."""


def _rewrite(statements: list[Any]) -> None:
    for statement in statements:
        for name in _BLOCKS:
            block = getattr(statement, name, None)
            if block:
                _rewrite(block)
        if type(statement) is ast.While:
            call = _placed(ast.Call(_placed(ast.Name(NAME, ast.Load()), statement), [], []), statement)
            statement.body.insert(0, _placed(ast.Expr(call), statement))
        elif type(statement) is ast.ClassDef:
            statement.decorator_list.insert(0, _placed(ast.Name(hashing.NAME, ast.Load()), statement))


def _placed(node: Any, statement: ast.stmt) -> Any:
    """On the statement's first line, for tracebacks."""
    node.lineno = node.end_lineno = statement.lineno
    node.col_offset = node.end_col_offset = statement.col_offset
    return node


def compiled(source: Any, path: str, *, optimize: int = -1) -> CodeType:
    """The program's source, ticking."""
    tree: Any = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True, optimize=optimize)
    _rewrite(tree.body)
    code: CodeType = compile(tree, path, "exec", dont_inherit=True, optimize=optimize)
    return code


def _source_to_code(self: Any, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
    return compiled(data, path, optimize=_optimize)


def install() -> None:
    setattr(builtins, NAME, passage.no_tick if passage.ordered else passage.tick)
    setattr(builtins, hashing.NAME, hashing.class_defined)
    sys.implementation.cache_tag = f"{sys.implementation.cache_tag}-{TAG}"
    _keep_compiled()
    importlib.machinery.SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]


def _keep_compiled() -> None:
    """If there is a place for it. One that cannot be written does no harm, the import system sees to that."""
    if sys.pycache_prefix is None:
        home = os.environ.get("HOME", "")
        caches = os.environ.get("XDG_CACHE_HOME") or (os.path.join(home, ".cache") if home else "")
        if not os.path.isabs(caches):
            return
        sys.pycache_prefix = os.path.join(caches, "llft", "pycache")
    with suppress(OSError):
        os.makedirs(sys.pycache_prefix, exist_ok=True)
    sys.dont_write_bytecode = False
