"""The process of one replica: `python -m llft.cli.replica_process`, started by the supervisor, never by hand.

It is a fresh interpreter in which nothing of the program has been imported yet. The order matters: the
genuine functions
are saved, the replica's own parts are made, then the interposition replaces what the program will
see, and only then the program runs, as `__main__`, when the group lets it.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]
import builtins
import json
import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

from llft.errors import LlftError
from llft.past.long_bytes import have_large_blocks_of
from llft.past.source import IMAGE, Interposed
from llft.runtime import settings_file
from llft.runtime.birthplace import FIXED, OF_ONE_LIFE, born_here
from llft.runtime.mapped import mapped
from llft.runtime.native.image import ImageError, randomised, stop_randomising
from llft.runtime.own_directory import DATA, Data, begin_with_seed, own
from llft.runtime.replica_process import DIED_STATUS, FORMER, SPECIFICATION, ReplicaProcess
from llft.runtime.restoring import IMAGE_TO_BE
from llft.runtime.state.choice import CONFIGURED, WITHOUT_IMAGES
from llft.runtime.state.durable import RESTORE
from llft.runtime.state.history import read_history
from llft.runtime.state.orders import Orders, become
from llft.runtime.state.scratch import FIRST_TO_GO, SCRATCH, read_task
from llft.runtime.state.scratch_life import ScratchLife

if TYPE_CHECKING:
    from llft.interpose.port import Port

assert settings_file
"""What a replica imports before its program, a scratch process must have imported, too: a module that the
program itself is the first to import takes ticks and locks, and then it yields elsewhere."""

BAD_SPECIFICATION_STATUS = 78
PR_SET_PDEATHSIG = 1
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -2, -3, -8
MAPPED_BYTES = 1 << 21
SCRATCH_NICE = 5
"""A scratch process has time; the replicas beside it have not."""


BIRTHPLACE = born_here()


def main() -> None:
    try:
        specification = json.loads(os.environ.pop(SPECIFICATION))
    except (KeyError, ValueError):
        sys.stderr.write("llft: this process is started by `llft run`, which tells it what to be\n")
        sys.exit(BAD_SPECIFICATION_STATUS)
    _end_with_parent()
    _arrange_memory()
    fix_addresses(specification)
    if FORMER in os.environ:
        specification["former"] = json.loads(os.environ.pop(FORMER))
    try:
        own_data(specification)
        if "former" not in specification and SCRATCH not in os.environ:
            become_past(specification)
        if IMAGE_TO_BE in os.environ:
            become_replica(specification, os.environ.pop(IMAGE_TO_BE))
        if SCRATCH in os.environ:
            try_state(specification, os.environ.pop(SCRATCH))
            return
        process = ReplicaProcess(specification, BIRTHPLACE)
    except (LlftError, OSError, ImageError) as error:
        sys.stderr.write(f"llft: {error}\n")
        passes = isinstance(error, ImageError) and not error.lasts
        sys.exit(DIED_STATUS if passes else BAD_SPECIFICATION_STATUS)
    signal.signal(signal.SIGTERM, lambda number, frame: process.leave())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    program = Program(specification, temporary=specification["temporary"])
    process.start()
    process.driver.run_main(lambda: process.ended(program.run(process, process.checkpoints.program_begins)))


def fix_addresses(specification: dict[str, Any]) -> None:
    """For images (D-63), unless the supervisor has seen to it: the same interpreter once more, at addresses
    that are not random. Where that is not allowed, the replica's log says that it has no checkpoints."""
    wanted = not specification.get(WITHOUT_IMAGES, CONFIGURED)
    if wanted and not os.environ.pop(FIXED, None) and randomised() and stop_randomising():
        once = {name: os.environ[name] for name in OF_ONE_LIFE if name in os.environ}
        BIRTHPLACE.start_anew({**once, FIXED: "1"})


def own_data(specification: dict[str, Any]) -> None:
    """The data directory. A scratch process goes through the program's past, too, with files of its own."""
    if DATA not in specification:
        return
    if SCRATCH in os.environ:
        temporary = read_task(os.environ[SCRATCH]).temporary
        own_copy = f"{temporary.removesuffix('.tmp')}.data.tmp"
        specification[DATA] = Data(*specification[DATA])._replace(copy=own_copy)
    own(Data(*specification[DATA]))


def try_state(specification: dict[str, Any], task_path: str) -> None:
    """This is a scratch process: the program is restored from a state, and followed for a while. By an image
    it goes on in `runtime.arising`."""
    os.nice(SCRATCH_NICE)
    _be_first_to_go()
    task = read_task(task_path)
    if task.source == IMAGE:
        become(orders_for(specification, task.state, [], task_path, task.temporary))
    life = ScratchLife(specification, task)
    program = Program(specification, temporary=task.temporary)
    life.begin()
    life.driver.run_main(lambda: life.ended(program.run(life, life.program_begins)))


def become_past(specification: dict[str, Any]) -> None:
    """If the group goes on from an image that is on disk; it goes on in `runtime.arising`."""
    if not specification.get(RESTORE):
        return
    past = read_history(specification[RESTORE])
    if past.base is None or past.base.source != IMAGE:
        return
    path = f"{specification['run_directory']}/replica-{specification['replica']}.state-{past.base.position}"
    if not os.path.exists(path):
        os.link(past.state_path, path)
    become(orders_for(specification, path, list(past.base), "", specification["temporary"]))


def become_replica(specification: dict[str, Any], wanted: str) -> NoReturn:
    """The group's program, as an image; it goes on in `runtime.arising`."""
    path, *base = json.loads(wanted)
    become(orders_for(specification, path, base, "", specification["temporary"]))


def orders_for(
    specification: dict[str, Any], path: str, base: list[Any], task: str, temporary: str
) -> Orders:
    return Orders(
        specification,
        BIRTHPLACE.environment,
        BIRTHPLACE.directory,
        BIRTHPLACE.umask,
        temporary,
        path,
        base,
        task,
    )


def _end_with_parent() -> None:
    """Ask the kernel to end us when the supervisor ends, however it ends."""
    import ctypes

    parent = os.getppid()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        sys.exit(1)


def _be_first_to_go() -> None:
    """Where memory runs out, a trial can be done without. Who has begun it takes this for a sign that it ends
    with them: it is done after `_end_with_parent`."""
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(FIRST_TO_GO)


def _arrange_memory() -> None:
    """What is very large is mapped, and given back when it is free. The C library would learn from the first
    such block to keep them, for each thread its own. The memory of messages is kept, also when a dialogue is
    taken back and all of them are free: it would be new, and cleared, for each of them.

    All threads have one arena, which grows by much at a time. That of a thread grows by a system call for
    each block that it lacks, and some of what is said and heard stays for a while. Nobody waits for another
    there, for one thread runs at a time."""
    import ctypes

    have_large_blocks_of(mapped)
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        library.mallopt(M_TRIM_THRESHOLD, 8 * MAPPED_BYTES)
        library.mallopt(M_TOP_PAD, MAPPED_BYTES)
        library.mallopt(M_ARENA_MAX, 1)


class Program:
    """The user's program, from its command line: `script.py ARG...`, or `-m MODULE ARG...`."""

    def __init__(self, specification: dict[str, Any], *, temporary: str) -> None:
        self.words: list[str] = specification["program"]
        self._data = Data(*specification[DATA]) if DATA in specification else None
        self._temporary = temporary

    def run(self, port: Port, begins: Callable[[Interposed], None] = lambda interposed: None) -> int:
        """To its end; returns its exit status."""
        from llft.interpose import marks
        from llft.interpose.files import own_temporary_directory
        from llft.interpose.install import install

        own_temporary_directory(self._temporary)
        if self._data is not None:
            begin_with_seed(self._data)
        install(port)
        begins(marks)
        _look_for_packages()
        try:
            self._execute()
        except SystemExit as end:
            return _status_of(end)
        except BaseException:  # noqa: BLE001 (the program's own failure: shown as Python would)
            traceback.print_exc()
            return 1
        return 0

    def _execute(self) -> None:
        module = types.ModuleType("__main__")
        module.__dict__.update(__builtins__=builtins, __annotations__={})
        sys.modules["__main__"] = module
        try:
            if self.words[0] == "-m":
                self._execute_module(module)
            else:
                self._execute_script(module)
        finally:
            _end()

    def _execute_script(self, module: types.ModuleType) -> None:
        from llft.interpose.ticking import compiled

        path = self.words[0]
        sys.argv = list(self.words)
        sys.path[0] = os.path.dirname(os.path.abspath(path))
        module.__file__ = path
        with open(path, "rb") as file:
            code = compiled(file.read(), path)
        exec(code, module.__dict__)

    def _execute_module(self, module: types.ModuleType) -> None:
        import runpy

        details: Any = runpy
        sys.path[0] = os.getcwd()
        sys.argv = ["-m", *self.words[2:]]
        _, spec, code = details._get_module_details(self.words[1])
        sys.argv[0] = spec.origin
        module.__dict__.update(
            __file__=spec.origin,
            __spec__=spec,
            __package__=spec.parent,
            __loader__=spec.loader,
            __cached__=spec.cached,
        )
        exec(code, module.__dict__)


def _look_for_packages() -> None:
    """What the interpreter does at its start, and was told to leave (-S), because what packages hook in there
    (`.pth` files) is of the program's world already."""
    import site

    site.main()


def _end() -> None:
    """What the interpreter does at its end, and the system after it: wait for the threads that are not
    daemons, run the exit functions, close the connections."""
    import atexit

    from llft.interpose.ending import close_connections

    try:
        threading = sys.modules.get("threading")
        if threading is not None:
            threading._shutdown()
        atexit._run_exitfuncs()
    finally:
        close_connections()


def _status_of(end: SystemExit) -> int:
    if end.code is None:
        return 0
    if isinstance(end.code, int):
        return end.code
    sys.stderr.write(f"{end.code}\n")
    return 1


if __name__ == "__main__":
    main()
