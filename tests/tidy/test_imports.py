"""Who may import whom: dependencies point downwards only, and the paper's part is pure.

cli  >  pipeline  >  runtime, interpose, simulator  >  past  >  core  >  wire, journal  >  the leaves
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator

from tests.tidy.sources import Module, modules

LEAVES = {"llft", "lane", "identifiers", "instant", "errors", "config", "originals", "version"}
LAYERS = {
    "cli": 6,
    "pipeline": 5,
    "runtime": 4,
    "interpose": 4,
    "simulator": 4,
    "past": 3,
    "core": 2,
    "wire": 1,
    "journal": 1,
    **dict.fromkeys(LEAVES, 0),
}

OF_THE_PIPELINE = {"pyspark", "py4j", "pyarrow", "numpy", "pandas"}
"""The extra that only `llft audit` and its like need: nothing outside `llft.pipeline` imports these."""

PURE = ("past", "core", "wire")
PURE_STDLIB = {
    "__future__",
    "abc",
    "bisect",
    "collections",
    "collections.abc",
    "contextlib",
    "dataclasses",
    "enum",
    "functools",
    "hashlib",
    "heapq",
    "itertools",
    "json",
    "math",
    "operator",
    "struct",
    "types",
    "typing",
    "zlib",
}
"""What `past`, `core` and `wire` may import of the standard library: nothing here reads a clock, a random
source, a file, a socket or a thread."""

IMPURE_CALLS = {"open", "print", "input", "hash", "id", "exec", "eval", "__import__"}
"""`hash` and `id` differ between replicas; the others are the world."""

LATE_IMPORT = "from llft.runtime import settings_file"

SETS = ("set", "frozenset")
CORE_PARTS = ("messaging", "membership", "determinizer")


def layer_name(name: str) -> str:
    """The first part below the package: "core" of "llft.core.replica"."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


def pure_modules() -> list[Module]:
    return [module for module in modules() if layer_name(module.name) in PURE]


def imports(among: Iterable[Module]) -> Iterator[tuple[Module, str, str]]:
    """Every import of these modules: who, what, and where for a message."""
    for module in among:
        for line, name in module.imports():
            yield module, name, f"{module.where}:{line} imports {name}"


def test_every_module_has_a_layer() -> None:
    homeless = [module.where for module in modules() if layer_name(module.name) not in LAYERS]
    assert homeless == [], "name its layer in LAYERS, or put it into one"


def test_nothing_imports_upwards_or_sideways() -> None:
    def allowed(mine: str, theirs: str) -> bool:
        return theirs == mine or LAYERS[theirs] < LAYERS[mine] or LAYERS[theirs] == LAYERS[mine] == 0

    offences = [
        where
        for module, name, where in imports(modules())
        if name.split(".")[0] == "llft" and not allowed(layer_name(module.name), layer_name(name))
    ]
    assert offences == []


def test_only_declared_dependencies_are_imported() -> None:
    def allowed(module: Module, top: str) -> bool:
        in_pipeline = layer_name(module.name) == "pipeline"
        of_its_own = (in_pipeline and top in OF_THE_PIPELINE) or (module.name, top) == (
            "llft.lane.build",
            "mypyc",
        )
        return top == "llft" or top in sys.stdlib_module_names or of_its_own

    offences = [
        where for module, name, where in imports(modules()) if not allowed(module, name.split(".")[0])
    ]
    assert offences == []


def test_core_and_wire_import_only_what_is_pure() -> None:
    offences = [
        where
        for _, name, where in imports(pure_modules())
        if name.split(".")[0] != "llft" and name not in PURE_STDLIB
    ]
    assert offences == [], "not on the allow-list"


def test_core_knows_journal_records_and_not_files() -> None:
    offences = [
        where
        for _, name, where in imports(pure_modules())
        if layer_name(name) == "journal" and name not in ("llft.journal.record", "llft.journal.batch")
    ]
    assert offences == []


def test_the_three_protocols_do_not_know_each_other() -> None:
    """Only `core.replica` composes them. `determinizer.operations` is a contract: values, no machine."""

    def part_of(name: str) -> str:
        parts = name.split(".")
        return parts[2] if parts[:2] == ["llft", "core"] and len(parts) > 2 else ""

    offences = [
        where
        for module, name, where in imports(pure_modules())
        if part_of(module.name) in CORE_PARTS
        and part_of(name) in (*CORE_PARTS, "replica")
        and part_of(name) != part_of(module.name)
        and name != "llft.core.determinizer.operations"
    ]
    assert offences == []


def test_core_and_wire_call_nothing_of_the_world() -> None:
    offences = [
        f"{module.where}:{node.lineno} calls {node.func.id}"
        for module in pure_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS
    ]
    assert offences == []


def test_core_and_wire_do_not_iterate_over_sets() -> None:
    """The order of a set differs between replicas. This sees sets that are written where they are
    iterated; runs of one seed under two hash seeds see the others."""
    offences = [
        f"{module.where}:{node.iter.lineno}"
        for module in pure_modules()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.For | ast.comprehension) and _is_set(node.iter)
    ]
    assert offences == []


def _is_set(node: ast.expr) -> bool:
    if isinstance(node, ast.Set | ast.SetComp):
        return True
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SETS


def test_a_replica_imports_everything_before_its_program_begins() -> None:
    """What a function imports, one process has when its program begins and another has not. The program then
    takes locks to import it in one of them, and yields elsewhere. Of our own modules only `settings_file` is
    imported so (`cli.replica_process` has it), and what the interposition itself imports at once."""
    of_replicas = [
        module
        for module in modules()
        if layer_name(module.name) in (*PURE, "journal", "runtime", *LEAVES)
        and not module.name.startswith(("llft.runtime.supervisor", "llft.runtime.gateway", "llft.lane.build"))
    ]
    offences = [
        f"{module.where}:{inner.lineno}"
        for module in of_replicas
        for function in ast.walk(module.tree)
        if isinstance(function, ast.FunctionDef)
        for inner in ast.walk(function)
        if isinstance(inner, ast.Import | ast.ImportFrom) and ast.unparse(inner) != LATE_IMPORT
    ]
    assert offences == [], "import it at the top"


def test_nothing_below_the_simulator_speaks_of_it() -> None:
    offences = [
        module.where
        for module in modules()
        if LAYERS.get(layer_name(module.name), 0) < LAYERS["simulator"] and "simulat" in module.text.lower()
    ]
    assert offences == [], "the core never knows its shell"
