"""Loops that wait for another thread without calling anything: `while not flag: pass`.

Under the token nobody else would ever run. So every `while` of the program, and of what it imports, begins
its body with a tick: a check point. The compiled code is kept under a tag of its own, so that no other
interpreter runs it.
"""

from __future__ import annotations

import ast
import builtins
import importlib.machinery
import sys
from types import CodeType
from typing import Any

from llft.interpose import hashing, passage

NAME = "__llft_tick__"
TAG = "llft1"
"""Another one whenever the code below writes something else."""


class _Rewriter(ast.NodeTransformer):
    def visit_While(self, node: ast.While) -> ast.While:
        self.generic_visit(node)
        tick = ast.Expr(ast.Call(ast.Name(NAME, ast.Load()), [], []))
        for part in ast.walk(tick):
            ast.copy_location(part, node)
        node.body.insert(0, tick)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        self.generic_visit(node)
        above = ast.copy_location(ast.Name(hashing.NAME, ast.Load()), node)
        node.decorator_list.insert(0, above)
        return node


def compiled(source: Any, path: str, *, optimize: int = -1) -> CodeType:
    """The program's source, ticking."""
    tree = compile(source, path, "exec", ast.PyCF_ONLY_AST, dont_inherit=True, optimize=optimize)
    return compile(_Rewriter().visit(tree), path, "exec", dont_inherit=True, optimize=optimize)


def _source_to_code(self: Any, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:
    return compiled(data, path, optimize=_optimize)


def install() -> None:
    setattr(builtins, NAME, passage.tick)
    setattr(builtins, hashing.NAME, hashing.class_defined)
    sys.implementation.cache_tag = f"{sys.implementation.cache_tag}-{TAG}"
    importlib.machinery.SourceFileLoader.source_to_code = _source_to_code  # type: ignore[method-assign]
