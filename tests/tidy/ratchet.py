"""Sizes that may only shrink.

`sizes.json` has the two limits (lines of a module, lines of a function) and, for what was larger when it
was made, the size each had: those may shrink and never grow, and none is added.

    python -m tests.tidy.ratchet             what is too large
    python -m tests.tidy.ratchet --update    take note of what became smaller; refuses to grow

Delete `sizes.json` and update to make it anew; a review will see that.
"""

from __future__ import annotations

import argparse
import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.sources import Module, modules

SIZES_FILE = Path(__file__).with_name("sizes.json")
LIMITS = {"module_lines": 300, "function_lines": 40}

Sizes = dict[str, int]


def function_sizes(module: Module) -> Iterator[tuple[str, int]]:
    """Every function as `path:Class.name`, with its lines without its docstring."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, int]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{module.where}:{prefix}{child.name}", _lines(child)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield from visit(child, f"{prefix}{child.name}.")
            else:
                yield from visit(child, prefix)

    yield from visit(module.tree, "")


def _lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    assert function.end_lineno is not None
    size = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and first.end_lineno is not None:
        size -= first.end_lineno - first.lineno + 1
    return size


def measure(limits: Sizes) -> Sizes:
    """Everything in the tree that is larger than the limits."""
    found: Sizes = {}
    for module in modules():
        line_count = module.text.count("\n")
        if line_count > limits["module_lines"]:
            found[module.where] = line_count
        for name, size in function_sizes(module):
            if size > limits["function_lines"]:
                found[name] = max(size, found.get(name, 0))
    return found


def load() -> tuple[Sizes, Sizes]:
    """The limits, and the exceptions from them."""
    content = json.loads(SIZES_FILE.read_text(encoding="utf-8"))
    return content["limits"], content["exceptions"]


def grown(allowed: Sizes, found: Sizes, limits: Sizes) -> list[str]:
    """One line for each thing that is larger than it may be."""
    lines = []
    for name, size in sorted(found.items()):
        if size > allowed.get(name, 0):
            limit = limits["function_lines" if ":" in name else "module_lines"]
            lines.append(f"{name}: {size} lines, at most {allowed.get(name, limit)} allowed: split it")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description="Sizes that may only shrink.")
    parser.add_argument("--update", action="store_true", help="take note of what became smaller")
    arguments = parser.parse_args()
    limits, found = LIMITS, measure(LIMITS)
    if SIZES_FILE.exists():
        limits, allowed = load()
        found = measure(limits)
        complaints = grown(allowed, found, limits)
        print("\n".join(complaints) or "nothing grew")
        if complaints:
            return 1
    if arguments.update:
        content = {"limits": limits, "exceptions": dict(sorted(found.items()))}
        SIZES_FILE.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
