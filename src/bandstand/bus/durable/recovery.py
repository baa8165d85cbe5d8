"""The start of a node from its journal: what was open when it ended, and what becomes of that.

Each open command has exactly one fate:

    not begun                                    it is dispatched, or answered with `Sys.Timeout` if its client has waited too long
    begun, and declared `retry_safe`             it is dispatched again; after three attempts that have ended with the node it is a dead letter
    begun otherwise                              `Sys.InDoubt`: whether it was carried out is unknown

The clients of these commands are gone. They may come back and send a command again with its id: then they get its answer. Answers that are remembered,
dead letters and scheduled messages are as they were.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from bandstand.bus.durable.records import CHECKPOINT, Checkpoint, read_json
from bandstand.bus.durable.state import DurableState, RecoveredAnswer, RememberedPages
from bandstand.journal import JournalReader

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from bandstand.bus.durable.state import DataOwner

__all__ = ("MAX_ATTEMPTS", "Fate", "JournalContents", "fate_of", "read_journal")

MAX_ATTEMPTS: Final = 3
"""How often a command may be handled when the node dies."""

# How many pages are read first, from the end, to find the last checkpoint.
_FIRST_STEP: Final = 64


class Fate(Enum):
    """What becomes of a command that was open when the node ended."""

    DISPATCHED = "dispatched"
    TIMED_OUT = "timed out"
    IN_DOUBT = "in doubt"
    DEAD = "dead"


def fate_of(begun: int, *, is_retry_safe: bool, is_overdue: bool) -> Fate:
    """Decide what becomes of an open command.

    Args:
        begun: how often a handler may have begun on it.
        is_retry_safe: whether it may be handled again.
        is_overdue: whether its client has waited longer than its deadline.
    """
    if not begun:
        return Fate.TIMED_OUT if is_overdue else Fate.DISPATCHED
    if not is_retry_safe:
        return Fate.IN_DOUBT
    return Fate.DISPATCHED if begun < MAX_ATTEMPTS else Fate.DEAD


@dataclass(frozen=True, slots=True)
class JournalContents:
    """What a journal says at the start of a node."""

    state: DurableState
    remembered: RememberedPages
    answers: Sequence[RecoveredAnswer]
    """The answers that may still be remembered, the oldest first."""


def read_journal(
    directory: str | os.PathLike[str],
    limit: int,
    keep_ms: int,
    owners: dict[str, DataOwner] | None = None,
) -> JournalContents:
    """Read what is open from the last checkpoint on, and the answers to remember.

    Args:
        directory: where the journal is.
        limit: how many answers are remembered.
        keep_ms: for how long.
        owners: the parts of the node with data of their own, by name: they take their records.

    Raises:
        JournalCorruptError: a page is damaged; the error names it.
        JournalFailedError: the disk has failed.
    """
    remembered = RememberedPages(limit, keep_ms)
    answers: deque[RecoveredAnswer] = deque(maxlen=limit)

    def on_answer(answer: RecoveredAnswer, page: int) -> None:
        answers.append(answer)
        remembered.note(page, answer.at, 1)

    state = DurableState(owners, on_answer)
    with JournalReader(directory) as reader:
        for page in reader.pages(_find_start(reader)):
            for record in page.records:
                state.apply(record, page.at, page.number)
    return JournalContents(state, remembered, answers)


def _find_start(reader: JournalReader) -> int:
    """Return the page to read from: the lowest that the last checkpoint needs, or the first one if there is no checkpoint."""
    first, last, step = reader.first, reader.last, _FIRST_STEP
    end = last
    while True:
        since = max(first, last - step)
        start = 0
        for page in reader.pages(since):
            if page.number > end:
                # These pages have been looked at.
                break
            if page.records and page.records[0].kind == CHECKPOINT:
                head = read_json(CHECKPOINT, page.records[0].data, Checkpoint)
                start = min(head.read_from or page.number, page.number)
        if start or since <= first:
            return max(first, start)
        end = since - 1
        step *= 8
