"""Which pages of a journal may be deleted: decisions, without a journal."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.durable.records import CHECKPOINT, DATA, EVENT, Checkpoint
from bandstand.bus.durable.retention import (
    PageSummary,
    Retention,
    has_owned_records,
    needed_from,
    slices,
    summary_of,
)
from bandstand.errors import InvalidArgumentError
from bandstand.journal import Page, Record
from bandstand.journal.page import encode_records
from bandstand.persistence.records import ENTITY_EVENT

NOW = 1_000_000


@st.composite
def journals(draw: st.DrawFn) -> list[PageSummary]:
    """Pages in a row, as if others had been deleted before; the clock may have been wrong."""
    first = draw(st.integers(1, 50))
    ages = draw(st.lists(st.integers(-5_000, 20_000), max_size=30))
    return [
        PageSummary(first + place, NOW - age, draw(st.integers(0, 100))) for place, age in enumerate(ages)
    ]


limits = st.builds(
    Retention,
    keep_for=st.none() | st.floats(0, 15) | st.integers(0, 15),
    keep_bytes=st.none() | st.integers(0, 2_000),
)


def pages(*sizes: int, at: int = 0) -> list[PageSummary]:
    return [PageSummary(number, at, size) for number, size in enumerate(sizes, 1)]


@pytest.mark.guarantee("G505")
class TestWhatIsKept:
    @given(summaries=journals(), limit=limits, needed=st.integers(0, 90))
    def test_only_old_pages_that_nothing_needs_are_deleted(
        self, summaries: list[PageSummary], limit: Retention, needed: int
    ) -> None:
        first = limit.first_kept(summaries, needed, NOW)
        deleted = [page for page in summaries if page.number < first]
        assert all(page.number < needed for page in deleted)
        for place, page in enumerate(deleted):
            is_old = limit.keep_for is not None and page.at < NOW - float(limit.keep_for) * 1000  # type: ignore[arg-type]
            rest = sum(each.size for each in summaries[place:])
            assert is_old or (limit.keep_bytes is not None and rest > limit.keep_bytes)

    @given(summaries=journals(), limit=limits, needed=st.integers(0, 90))
    def test_nothing_more_could_be_deleted(
        self, summaries: list[PageSummary], limit: Retention, needed: int
    ) -> None:
        first = limit.first_kept(summaries, needed, NOW)
        kept = [page for page in summaries if page.number >= first]
        if not kept or kept[0].number >= needed:
            return
        assert limit.keep_for is None or kept[0].at >= NOW - float(limit.keep_for) * 1000  # type: ignore[arg-type]
        assert limit.keep_bytes is None or sum(page.size for page in kept) <= limit.keep_bytes

    @given(summaries=journals(), limit=limits, needed=st.integers(0, 90))
    def test_deciding_again_after_the_deletion_deletes_nothing(
        self, summaries: list[PageSummary], limit: Retention, needed: int
    ) -> None:
        first = limit.first_kept(summaries, needed, NOW)
        kept = [page for page in summaries if page.number >= first]
        again = limit.first_kept(kept, needed, NOW)
        assert [page for page in kept if page.number >= again] == kept

    @given(summaries=journals(), needed=st.integers(0, 90))
    def test_without_limits_nothing_is_deleted(self, summaries: list[PageSummary], needed: int) -> None:
        first = Retention().first_kept(summaries, needed, NOW)
        assert all(page.number >= first for page in summaries)

    @given(summaries=journals(), limit=limits)
    def test_nothing_without_a_checkpoint(self, summaries: list[PageSummary], limit: Retention) -> None:
        first = limit.first_kept(summaries, 0, NOW)
        assert all(page.number >= first for page in summaries)

    def test_the_limits_themselves_are_kept(self) -> None:
        assert Retention(keep_for=1).first_kept(pages(1, 1, at=NOW - 1000), 9, NOW) == 1
        assert Retention(keep_for=1).first_kept(pages(1, 1, at=NOW - 1001), 9, NOW) == 3
        assert Retention(keep_bytes=20).first_kept(pages(10, 10, 10), 9, NOW) == 2
        assert Retention(keep_bytes=19).first_kept(pages(10, 10, 10), 9, NOW) == 3

    def test_a_summary_of_several_pages_is_kept_as_a_whole(self) -> None:
        summaries = [PageSummary(10, 0, 5), PageSummary(20, 0, 5)]
        assert Retention(keep_for=0).first_kept(summaries, 15, NOW) == 11

    def test_a_checkpoint_needs_the_answers_before_it(self) -> None:
        assert needed_from(9, Checkpoint(next_number=1, read_from=4)) == 4
        assert needed_from(9, Checkpoint(next_number=1, read_from=12)) == 9
        assert needed_from(9, Checkpoint(next_number=1, read_from=0)) == 9

    @pytest.mark.parametrize(
        ("kinds", "expected"),
        [([], False), ([EVENT, CHECKPOINT, DATA], False), ([EVENT, ENTITY_EVENT], True), ([200], True)],
    )
    def test_some_records_belong_to_a_part_of_the_node(self, kinds: list[int], expected: bool) -> None:
        page = Page(1, 2, tuple([Record(kind, b"") for kind in kinds]), 0)
        assert has_owned_records(page) is expected

    @given(
        records=st.lists(
            st.builds(Record, st.integers(0, 255), st.binary(max_size=50)), min_size=1, max_size=5
        )
    )
    def test_the_size_of_a_page_is_that_of_its_body(self, records: list[Record]) -> None:
        assert summary_of(Page(3, 4, tuple(records), 0)) == PageSummary(3, 4, len(encode_records(records)))

    @pytest.mark.parametrize(
        ("limit", "text"),
        [
            ({"keep_for": -1}, "Retention: keep_for is -1"),
            ({"keep_for": float("nan")}, "Retention: keep_for is nan"),
            ({"keep_for": "1h"}, "Retention: keep_for is '1h'"),
            ({"keep_bytes": -1}, "Retention: keep_bytes is -1"),
            ({"keep_bytes": 1.5}, r"Retention: keep_bytes is 1\.5"),
        ],
    )
    def test_an_invalid_limit_is_refused(self, limit: dict[str, Any], text: str) -> None:
        with pytest.raises(InvalidArgumentError, match=text):
            Retention(**limit)


@pytest.mark.guarantee("G505")
class TestSlices:
    @given(
        summaries=journals(),
        first=st.integers(0, 90),
        max_pages=st.integers(1, 8),
        max_bytes=st.integers(1, 300),
    )
    def test_slices_are_small_and_end_at_the_first_page_that_is_kept(
        self, summaries: list[PageSummary], first: int, max_pages: int, max_bytes: int
    ) -> None:
        ends = list(slices(summaries, first, max_pages=max_pages, max_bytes=max_bytes))
        deleted = [page for page in summaries if page.number < first]
        assert bool(ends) == bool(deleted)
        assert not deleted or ends[-1] == deleted[-1].number + 1
        starts = [deleted[0].number, *ends] if deleted else []
        assert starts == sorted(set(starts))
        for start, end in pairwise(starts):
            part = [page.size for page in deleted if start <= page.number < end]
            assert len(part) <= max_pages
            assert len(part) == 1 or sum(part) <= max_bytes
