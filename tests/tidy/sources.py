"""The tree as the tidy tests see it: every module of the package, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Module:
    """One file of the package. `name` is dotted; a package's own file has the package's name."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    is_package: bool

    @property
    def where(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    def imports(self) -> Iterator[tuple[int, str]]:
        """Line and dotted name of everything imported, wherever in the file."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                yield from ((node.lineno, name) for name in self._from_names(node))

    def _from_names(self, node: ast.ImportFrom) -> list[str]:
        base = node.module or ""
        if node.level:
            parts = self.name.split(".")
            parts = parts[: len(parts) - node.level + (1 if self.is_package else 0)]
            base = ".".join([*parts, base] if base else parts)
        if not base.startswith("llft"):
            return [base]
        # `from llft.core import replica` imports a module, `from llft.core.replica import Replica` a name.
        known = module_names()
        return [full if (full := f"{base}.{alias.name}") in known else base for alias in node.names]


@cache
def module_names() -> frozenset[str]:
    return frozenset(_dotted(path) for path in (ROOT / "llft").rglob("*.py"))


@cache
def modules() -> tuple[Module, ...]:
    """All modules of the package, by path."""
    found = []
    for path in sorted((ROOT / "llft").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, str(path))
        found.append(Module(_dotted(path), path, text, tree, path.name == "__init__.py"))
    return tuple(found)


def _dotted(path: Path) -> str:
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
