"""The checkpoints of one replica process: which source its program has, its keeper, and what joiners get.

Which source it is can be said when the program has begun: hooks are looked for in its main module when it
first waits. Without a source the log is kept from birth, and the replica's log says so.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, NoReturn, Protocol

from llft import originals
from llft.config import Checkpoints as Choice
from llft.config import Replication
from llft.identifiers import BirthId
from llft.instant import SECOND
from llft.journal.record import MembershipChanged, Record
from llft.past.checkpoint import Base
from llft.past.keeper import Keeper, Scratch
from llft.past.source import HOOKS, IMAGE, NONE, Captured, Interposed, Source
from llft.runtime.arising import arise
from llft.runtime.birthplace import Birthplace
from llft.runtime.driver import Driver
from llft.runtime.native import image
from llft.runtime.settings import Settings
from llft.runtime.state.choice import CONFIGURED, SIDE_BY_SIDE, WITHOUT_IMAGES
from llft.runtime.state.hooks import RESTORE, SNAPSHOT, Hooks
from llft.runtime.state.image_source import ImageSource
from llft.runtime.state.restart import Restart
from llft.runtime.state.scratch import ScratchProcess

HELD_NS = 3 * SECOND
"""So long checkpoints and trials wait when somebody joins: it would have most of its way behind it."""
STAGGERED = 4
"""So many replicas take their checkpoints at different lengths of the log, a quarter of its bound apart."""


SOURCES = {
    IMAGE: "checkpoints by image of the process",
    HOOKS: f"checkpoints by the program's {SNAPSHOT} and {RESTORE}",
}
FIXED = {
    (True, IMAGE): f", for it has no {SNAPSHOT}; its addresses are not random (--checkpoints none: they are)",
    (True, HOOKS): "; its addresses are not random (--checkpoints hooks: they are)",
    (False, IMAGE): ", as asked for; its addresses are not random",
    (False, HOOKS): "",
}
"""By whether LLFT chose the source. Addresses were fixed before the program could be asked for hooks."""
REMEDY = f"give its main module {SNAPSHOT} and {RESTORE}, and with --data files that belong to its state"


class Life(Protocol):
    """What of a replica process is needed here."""

    driver: Driver
    birthplace: Birthplace
    specification: dict[str, Any]
    path: str

    def say(self, text: str) -> None: ...
    def different(self) -> NoReturn: ...


class Checkpoints:
    """`tend`, `base` and `provide_state` are called with the driver's lock held."""

    def __init__(self, life: Life, settings: Settings) -> None:
        self._life = life
        group: str = life.specification["group"]
        _remove_stale(f"{life.path}.state-", "")
        self._driver = life.driver
        self._settings = settings.group(group)
        self._against_images = life.specification.get(WITHOUT_IMAGES, CONFIGURED) or image.obstacle()
        self._has_fixed_addresses = not image.randomised()
        self.keeper: Keeper | None = None
        self._interposed: Interposed | None = None
        self._hooks: Hooks | None = None
        self._scratch: ScratchProcess | None = None
        """The last one; it may have ended."""
        self._hold_until_ns = 0
        self._members: set[BirthId] = set()
        self._chosen = False
        self.reason = "the program neither listens nor has threads, as yet"
        """Why there are no checkpoints, or were none possible when the source was chosen."""

    def program_begins(self, interposed: Interposed) -> None:
        """The interposition is in place, the program's first line is about to run."""
        self._interposed = interposed
        interposed.leave_out(f"{_directory(self._life.path)}/")
        self._hooks = Hooks(
            self._driver.application, interposed, f"{self._life.path}.state", self._settings.data
        )

    def begin_again(self, base: Base, path: str) -> None:
        """This program was restored from an image. Another process's trial and its clock are none of ours."""
        self._hooks = None
        self._scratch, self._hold_until_ns, self._members = None, 0, set()
        assert self._interposed is not None
        self._interposed.leave_out(f"{_directory(self._life.path)}/")
        _remove_stale(f"{self._life.path}.state-", path)
        self._keep_by(self._image())
        assert self.keeper is not None
        self.keeper.adopt(base, path)

    def tend(self, now_ns: int) -> None:
        if self._interposed is None:
            return
        if not self._chosen and self._driver.application.is_quiescent() and self._interposed.has_begun():
            self._choose()
        if self.keeper is not None:
            if (
                self._hooks is not None
                and self.keeper.source is self._hooks
                and self._driver.application.is_quiescent()
            ):
                self._hooks.look()
            self.keeper.tend(now_ns)

    def take(self, record: Record) -> None:
        """Of what happens to the replica: all members make way for one that joins."""
        if isinstance(record, MembershipChanged):
            former, self._members = self._members, {member.birth_id for member in record.membership}
            if self._members - former:
                self._make_way(originals.monotonic_ns() + HELD_NS)

    def _make_way(self, until_ns: int) -> None:
        self._hold_until_ns = until_ns
        if self._scratch is not None:
            self._scratch.hold(until_ns)
        if self.keeper is not None:
            self.keeper.make_way(until_ns)

    def newest(self) -> tuple[Base | None, str]:
        """The newest verified state, and its file."""
        return self.keeper.newest() if self.keeper is not None else (None, "")

    def base(self) -> Base | None:
        """For a joiner, which will come for it."""
        return self.keeper.tell(originals.monotonic_ns()) if self.keeper is not None else None

    def provide_state(self, start: int, end: int, position: int) -> bytes | None:
        """A piece of a state, for a joiner."""
        path = self.keeper.lend(position, originals.monotonic_ns()) if self.keeper is not None else ""
        if not path:
            return None
        with open(path, "rb", buffering=0) as file:
            file.seek(start)
            piece = file.read(end - start)
        return piece if len(piece) == end - start else None

    def restart(self, base: Base, head: bytes, state: bytes) -> Restart:
        """For a program that has not begun, and is to come to this state by its hooks."""
        path = f"{self._life.path}.state-{base.position}"
        with open(path, "wb") as file:
            file.write(state)

        def restore() -> None:
            assert self._hooks is not None
            with self._driver.aside():
                self._hooks.restore(state)
            self._keep_by(self._hooks)
            assert self.keeper is not None
            self.keeper.adopt(base, path)

        return Restart(head, restore)

    def close(self) -> None:
        if self.keeper is not None:
            self.keeper.close()

    def statistics(self) -> dict[str, int | str]:
        if self.keeper is None or self._interposed is None:
            return {"source": NONE, "why": self.reason, "account": self.account()}
        return {**self.keeper.statistics(), "why_not": self._why_not(), "account": self.account()}

    def account(self) -> str:
        """Which source it is, and why, in a line for people; "": that is not known yet. The words change when
        something has changed that people should know, and are the same at all replicas."""
        if not self._chosen:
            return ""
        if self.keeper is None:
            return f"no checkpoints, the log is kept from birth, and memory grows with it: {self.reason}"
        text = SOURCES[self.keeper.source.name]
        if self._has_fixed_addresses:
            text += FIXED[self._settings.checkpoints is Choice.AUTO, self.keeper.source.name]
        why_not = self._why_not()
        if not why_not:
            return text
        since = "its last checkpoint" if self.keeper.base else "birth"
        return f"{text}; but none is taken now, and the log is kept from {since}: {why_not}"

    def _why_not(self) -> str:
        """What keeps checkpoints from being taken, as far as it is known already."""
        assert self.keeper is not None and self._interposed is not None
        if self.keeper.source.name != IMAGE:
            return self.keeper.trouble
        reason = self._interposed.outside_state() or self.keeper.trouble
        reason = reason or ("" if self.keeper.base else self.reason)
        return f"{reason.splitlines()[0]}; {REMEDY}" if reason else ""

    # -- the choice ------------------------------------------------------------------------------------

    def _choose(self) -> None:
        """When the program first waits for something."""
        self._chosen = True
        source, self.reason = self._source()
        if source is None and self._settings.replication is Replication.SEMI_PASSIVE:
            self._life.say(f"semi-passive backups would have no state of this program: {self.reason}")
            self._life.say(
                f"give its main module {SNAPSHOT} and {RESTORE}, or run it with --replication semi-active"
            )
            self._life.different()
        elif source is not None:
            self._keep_by(source)
        self._life.say(self.account())

    def _source(self) -> tuple[Source | None, str]:
        choice = self._settings.checkpoints
        assert self._hooks is not None
        if choice is Choice.NONE:
            return None, CONFIGURED
        if not self._driver.token:
            return None, SIDE_BY_SIDE
        if choice is not Choice.IMAGE and self._hooks.are_there():
            return self._hooks, ""
        if self._against_images:
            without = "" if choice is Choice.IMAGE else f"the program has no {SNAPSHOT} and {RESTORE}, and "
            return None, without + self._against_images
        source = self._image()
        return source, source.refusal()

    def _image(self) -> ImageSource:
        interposed, life = self._interposed, self._life
        assert interposed is not None
        return ImageSource(
            self._driver,
            interposed,
            f"{life.path}.state",
            life.specification["temporary"],
            lambda carried: arise(life, interposed, carried),  # type: ignore[arg-type]  # a ReplicaProcess
        )

    def _keep_by(self, source: Source) -> None:
        self._chosen = True
        place = (self._life.specification["replica"] - 1) % STAGGERED
        log_bytes = self._settings.checkpoint_log_kb * 1024
        self.keeper = Keeper(
            self._driver.application,
            source,
            self._begin_scratch,
            self._life.say,
            _unlink,
            log_bytes=log_bytes + log_bytes * place // STAGGERED,
        )
        self.keeper.make_way(self._hold_until_ns)

    def _begin_scratch(self, captured: Captured, head: bytes, followed: bytes) -> Scratch:
        assert self.keeper is not None
        birthplace = self._life.birthplace
        self._scratch = ScratchProcess(
            f"{self._life.path}.scratch",
            birthplace.command(),
            birthplace.environment,
            self.keeper.source.name,
            captured,
            (head, followed),
        )
        self._scratch.hold(self._hold_until_ns)
        return self._scratch


def _directory(path: str) -> str:
    return path.rpartition("/")[0]


def _remove_stale(prefix: str, kept: str) -> None:
    """States of former lives, which were killed before they could remove them."""
    directory = _directory(prefix)
    for name in originals.listdir(directory):
        path = f"{directory}/{name}"
        if path.startswith(prefix) and path != kept:
            _unlink(path)


def _unlink(path: str) -> None:
    with suppress(FileNotFoundError):
        originals.unlink(path)
