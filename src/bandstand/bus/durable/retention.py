"""Which pages of a journal may be deleted.

A page is kept while it is needed to start the node again, and as long as the limits say: `keep_for` by its time, `keep_bytes` by the size of what is kept.
Pages are deleted from the oldest on, so the answer is one number: the first page that is kept.

Everything here is pure: summaries of pages in, page numbers out. `DurableLane` and `bandstand log compact` delete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, final

from bandstand.bus.durable.records import KIND_NAMES, Checkpoint
from bandstand.errors.validation import Seconds, check_int, to_ms
from bandstand.journal import Page
from bandstand.persistence.records import ENTITY_EVENT, ENTITY_SNAPSHOT, EVENT_SCHEMA

__all__ = ("PageSummary", "Retention", "has_owned_records", "needed_from", "slices", "summary_of")

_OWNED: Final = frozenset({ENTITY_EVENT, ENTITY_SNAPSHOT, EVENT_SCHEMA})

# What a slice deletes at most, so that a writer and a reader wait for a short time only.
_SLICE_PAGES: Final = 256
_SLICE_BYTES: Final = 16 << 20

# A record has this many bytes in its page besides its data.
_RECORD_HEAD: Final = 9


@final
@dataclass(frozen=True, slots=True)
class PageSummary:
    """What retention has to know of a page, or of several pages in a row that are kept or deleted together."""

    number: int
    """The number of the page; of several, that of the last one."""
    at: int
    """When it was written, in milliseconds since 1970; of several, the latest time."""
    size: int
    """The bytes of its records."""


def summary_of(page: Page) -> PageSummary:
    """Return the summary of a page."""
    return PageSummary(page.number, page.at, sum(len(record.data) + _RECORD_HEAD for record in page.records))


def needed_from(page: int, checkpoint: Checkpoint) -> int:
    """Return the first page that a start of the node reads.

    Args:
        page: the page of the newest checkpoint.
        checkpoint: that checkpoint.
    """
    return min(page, checkpoint.read_from or page)


def has_owned_records(page: Page) -> bool:
    """Return whether a page has records that no checkpoint repeats, so that only the part of the node that wrote them knows when they may go.

    These are the events, snapshots and schemas of entities, and records of kinds that this version does not know.
    """
    return any(record.kind in _OWNED or record.kind not in KIND_NAMES for record in page.records)


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long pages are kept that the node does not need any more. With both limits, a page is deleted when one of them says so.

    Raises:
        InvalidArgumentError: a limit is no duration, or no int from 0 on.
    """

    keep_for: Seconds | None = None
    """Keep pages for this time; None for no limit."""
    keep_bytes: int | None = None
    """Keep at most this many bytes of records; None for no limit."""

    def __post_init__(self) -> None:
        if self.keep_for is not None:
            to_ms("Retention: keep_for", self.keep_for, otherwise=", or None for no limit")
        if self.keep_bytes is not None:
            check_int("Retention: keep_bytes", self.keep_bytes, 0, 1 << 62)

    def first_kept(self, pages: Sequence[PageSummary], needed: int, now: int) -> int:
        """Return the first page to keep: those before it may be deleted.

        No page from `needed` on is deleted, no page that is within both limits, and none behind one that is kept. So a page whose time is in the
        future, because the clock was wrong, keeps those behind it until its time or until `keep_bytes`.

        Args:
            pages: the pages of the journal in their order.
            needed: the first page that the node needs, from `needed_from`; 0 if nothing may be deleted.
            now: the time, in milliseconds since 1970.
        """
        oldest = None if self.keep_for is None else now - to_ms("keep_for", self.keep_for)
        kept = sum(page.size for page in pages)
        first = pages[0].number if pages else 0
        for page in pages:
            is_old = oldest is not None and page.at < oldest
            is_too_much = self.keep_bytes is not None and kept > self.keep_bytes
            if page.number >= needed or not (is_old or is_too_much):
                break
            kept -= page.size
            first = page.number + 1
        return first


def slices(
    pages: Iterable[PageSummary],
    first_kept: int,
    *,
    max_pages: int = _SLICE_PAGES,
    max_bytes: int = _SLICE_BYTES,
) -> Iterator[int]:
    """Yield the numbers to pass to `Journal.delete_before` one after the other, so that each call deletes little.

    The last number is `first_kept`; nothing is yielded if there is nothing to delete. A slice has at most `max_pages` summaries and `max_bytes`,
    or one summary.
    """
    count = size = 0
    before = 0
    for page in pages:
        if page.number >= first_kept:
            break
        if count and (count == max_pages or size + page.size > max_bytes):
            yield before
            count = size = 0
        count += 1
        size += page.size
        before = page.number + 1
    if count:
        yield before
