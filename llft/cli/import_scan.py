"""What a program imports, read from its files without running it: is any of it refused (D-17)?

The files are the program's own: the script, and what it imports from its own directory. Installed packages
are not read; what they import shows when the program is started. An import within `try` is one that
the program can do without, and no obstacle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from llft.config import ThreadMode
from llft.interpose.refusals import remedy_for

FILE_LIMIT = 2000


@dataclass(frozen=True, slots=True)
class RefusedImport:
    file: str
    line: int
    module: str
    remedy: str
    optional: bool


@dataclass(frozen=True, slots=True)
class _Import:
    line: int
    module: str
    optional: bool


def scan_program(words: Sequence[str], threads: ThreadMode = ThreadMode.TOKEN) -> list[RefusedImport]:
    """Of a program's words (`script.py ARG...` or `-m MODULE ARG...`): all its imports that are refused."""
    if words[0] == "-m":
        root = Path.cwd()
        waiting = list(_files_of(words[1], root))
    else:
        root = Path(words[0]).absolute().parent
        waiting = [Path(words[0]).absolute()]
    seen: set[Path] = set()
    found: list[RefusedImport] = []
    while waiting and len(seen) < FILE_LIMIT:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        for each in _imports(path, root):
            remedy = remedy_for(each.module, ordered=threads is ThreadMode.ORDERED)
            if remedy is not None:
                found.append(RefusedImport(str(path), each.line, each.module, remedy, each.optional))
            waiting += _files_of(each.module, root)
    return found


def _files_of(module: str, root: Path) -> Iterator[Path]:
    """The files below `root` that importing the module executes; none if it is not the program's own."""
    place = root
    for part in module.split("."):
        place = place / part
        for candidate in (place / "__init__.py", place.with_suffix(".py")):
            if candidate.is_file():
                yield candidate
    if (place / "__main__.py").is_file():
        yield place / "__main__.py"


def _imports(path: Path, root: Path) -> Iterator[_Import]:
    try:
        tree = ast.parse(path.read_bytes(), str(path))
    except (SyntaxError, ValueError):
        return  # Python itself says what is wrong with it, when it is started
    inside = path.relative_to(root).parent.parts if path.is_relative_to(root) else ()
    yield from _within(tree, ".".join(inside), optional=False)


def _within(node: ast.AST, package: str, *, optional: bool) -> Iterator[_Import]:
    if isinstance(node, ast.Import):
        yield from (_Import(node.lineno, alias.name, optional) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = _base_of(node, package)
        yield from (_Import(node.lineno, f"{base}.{alias.name}", optional) for alias in node.names)
    for child in ast.iter_child_nodes(node):
        yield from _within(child, package, optional=optional or isinstance(node, ast.Try))


def _base_of(node: ast.ImportFrom, package: str) -> str:
    if not node.level:
        return node.module or ""
    parts = package.split(".")
    parts = parts[: len(parts) - node.level + 1]
    return ".".join([*parts, node.module] if node.module else parts)
