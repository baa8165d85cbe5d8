"""Checks what a journal says against itself: every record can be read, and every checkpoint says what the records before it say.

A start of a node reads the newest checkpoint and what follows. So it finds the right state only if that checkpoint is right. `check_replay` folds the records
without the checkpoints, and compares the state with each checkpoint on its way.

Everything here is pure: pages in, a report out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, final

import msgspec
from msgspec import Struct

from bandstand.bus.durable.reader import entries_of
from bandstand.bus.durable.records import BOOT, CHECKPOINT, KIND_NAMES, REQUEST, read_line
from bandstand.bus.durable.state import DurableState
from bandstand.journal import Record

if TYPE_CHECKING:
    from bandstand.journal import Page

__all__ = ("Content", "Disagreement", "ReplayReport", "check_replay", "count_content")

# How many differences of a checkpoint are listed.
_LISTED: Final = 20


@final
class Content(Struct, rename="camel"):
    """What some pages contain. Every record in them can be read."""

    pages: int = 0
    records: int = 0
    bytes: int = 0
    first: int | None = None
    """The number of the first page."""
    last: int | None = None
    since: int | None = None
    """When the first page was written, in milliseconds since 1970."""
    until: int | None = None
    kinds: dict[str, int] = msgspec.field(default_factory=Counter[str])
    """How many records there are of each kind, without copies."""
    copies: int = 0
    """How many records repeat others, as part of a checkpoint."""
    unknown: int = 0
    """How many records have a kind that this version does not know."""


def count_content(pages: Iterable[Page], content: Content) -> Iterator[Page]:
    """Read every record of some pages, count them in `content`, and yield each page.

    Raises:
        JournalCorruptError: a record is not what its kind says. The pages before it were counted.
    """
    for page in pages:
        entries = list(entries_of(page))
        if content.first is None:
            content.first, content.since = page.number, page.at
        content.last, content.until = page.number, page.at
        content.pages += 1
        content.records += len(entries)
        for entry in entries:
            content.bytes += len(entry.data)
            if entry.is_copy:
                content.copies += 1
            else:
                content.kinds[entry.kind_name] += 1
            content.unknown += entry.kind not in KIND_NAMES
        yield page


# -- replay ------------------------------------------------------------------------------------------------------------------------


@final
class Disagreement(Struct):
    """A checkpoint that differs from the records before it."""

    page: int
    differences: list[str]
    """The first differences."""


@final
class ReplayReport(Struct, rename="camel"):
    """The state that follows from a journal."""

    pages: int = 0
    records: int = 0
    starts: int = 0
    """How often a node was started."""
    checkpoints: int = 0
    compared: int = 0
    """How many of the checkpoints were compared: all, except the first one if pages before it were deleted."""
    disagreements: list[Disagreement] = msgspec.field(default_factory=list[Disagreement])
    newest_checkpoint: int | None = None
    """The page of the newest checkpoint."""
    next_number: int = 1
    open: list[str] = msgspec.field(default_factory=list[str])
    """The ids of the requests without an answer."""
    begun: list[str] = msgspec.field(default_factory=list[str])
    """Those of them whose handler may have begun."""
    doubtful: list[str] = msgspec.field(default_factory=list[str])
    """The ids of the requests of which it is not known whether they were executed."""
    timers: list[str] = msgspec.field(default_factory=list[str])
    dead: list[str] = msgspec.field(default_factory=list[str])


def check_replay(pages: Iterable[Page]) -> ReplayReport:
    """Fold all records, and compare the result with every checkpoint.

    The data of parts of the node with data of their own, such as entities, are not compared: only those parts know what they mean.

    Raises:
        JournalCorruptError: a record is not what its kind says.
    """
    replay = _Replay()
    for page in pages:
        replay.take(page)
    return replay.finish()


@final
class _Replay:
    """The fold over a journal, with a comparison at each checkpoint."""

    def __init__(self) -> None:
        self.report = ReplayReport()
        # What follows from the records so far. None until it is known what was open before the first page.
        self._state: DurableState | None = None
        # What the present checkpoint says.
        self._claimed: DurableState | None = None

    def take(self, page: Page) -> None:
        """Take the next page."""
        report = self.report
        if page.number == 1:
            self._state = DurableState()
        report.pages += 1
        for entry in entries_of(page):
            report.records += 1
            report.starts += entry.kind == BOOT
            record = Record(entry.kind, entry.data)
            if entry.kind == CHECKPOINT:
                self._compare(page.number)
                self._claimed = DurableState()
                report.checkpoints += 1
                report.newest_checkpoint = page.number
            elif self._state is not None and not entry.is_copy:
                self._state.apply(record, page.at, page.number)
            if self._claimed is not None:
                self._claimed.apply(record, page.at, page.number)
        self._compare(page.number)

    def _compare(self, page: int) -> None:
        """Compare the present checkpoint with the records before it, and go on with what it says, as a start of a node does."""
        state, claimed = self._state, self._claimed
        if claimed is None:
            return
        if state is not None:
            self.report.compared += 1
            differences = list(islice(_differences(state, claimed), _LISTED))
            if differences:
                self.report.disagreements.append(Disagreement(page, differences))
        self._state, self._claimed = claimed, None

    def finish(self) -> ReplayReport:
        """Return the report."""
        report, state = self.report, self._state
        if state is not None:
            report.next_number = state.next_number
            report.open = [_id_of(request.line) for request in state.open.values()]
            report.begun = [_id_of(request.line) for request in state.open.values() if request.begun]
            report.doubtful = [_id_of(each.request.line) for each in state.doubtful.values()]
            report.timers = list(state.timers)
            report.dead = list(state.dead)
        return report


def _id_of(line: bytes) -> str:
    return read_line(REQUEST, line).metadata.id


def _differences(state: DurableState, claimed: DurableState) -> Iterator[str]:
    """Yield what a checkpoint says differently from the records before it."""
    # It may be higher: a checkpoint skips the numbers of requests that are not written yet.
    if state.next_number > claimed.next_number:
        yield f"the next request has number {state.next_number}, and the checkpoint says {claimed.next_number}"
    for name, found, expected in (
        ("request", _requests(claimed), _requests(state)),
        ("request in doubt", _doubtful(claimed), _doubtful(state)),
        ("timer", claimed.timers, state.timers),
        ("dead letter", claimed.dead, state.dead),
    ):
        yield from _compared(name, found, expected)


def _requests(state: DurableState) -> dict[object, object]:
    return {number: (request.at, request.line, request.begun) for number, request in state.open.items()}


def _doubtful(state: DurableState) -> dict[object, object]:
    return {
        number: (each.request.at, each.request.line, each.answer) for number, each in state.doubtful.items()
    }


def _compared(name: str, found: Mapping[Any, object], expected: Mapping[Any, object]) -> Iterator[str]:
    """Yield the differences between what a checkpoint says and what it should say."""
    for key in expected:
        if key not in found:
            yield f"{name} {key} is open, and the checkpoint does not have it"
        elif found[key] != expected[key]:
            yield f"{name} {key} is not the same in the checkpoint"
    for key in found:
        if key not in expected:
            yield f"{name} {key} is in the checkpoint, and is not open"
