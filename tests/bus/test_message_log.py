"""The log in memory: the last messages, bounded both ways."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.message_log import MemoryLog
from bandstand.errors import InvalidArgumentError

pytestmark = [pytest.mark.spec("C26")]


def frame(number: int, size: int = 2) -> Frame:
    """A frame with so many bytes of data."""
    data = b"1" * size
    return Frame(kind="event", type="A.B", data=Raw(data), metadata=Metadata(str(number), 1))


def ids(log: MemoryLog, limit: int = 1_000_000) -> list[int]:
    return [int(kept.metadata.id) for kept in log.recent(limit)]


def filled(sizes: list[int], **bounds: int) -> MemoryLog:
    log = MemoryLog(**bounds)
    for number, size in enumerate(sizes):
        log.append(frame(number, size))
    return log


class TestWhatIsKept:
    @given(
        sizes=st.lists(st.integers(1, 60), max_size=60),
        messages=st.integers(1, 12),
        bound=st.integers(1, 120),
    )
    def test_it_is_the_longest_tail_allowed(self, sizes: list[int], messages: int, bound: int) -> None:
        log = filled(sizes, messages=messages, bytes=bound)
        fitting = [number for number, size in enumerate(sizes) if size <= bound]
        assert log.skipped == len(sizes) - len(fitting)
        expected: list[int] = []
        for number in reversed(fitting):
            if len(expected) == messages or sum(sizes[kept] for kept in expected) + sizes[number] > bound:
                break
            expected.insert(0, number)
        assert ids(log) == expected
        assert log.held_bytes == sum(sizes[number] for number in expected)
        assert len(log) == len(expected)


class TestReading:
    @pytest.mark.parametrize(
        ("limit", "expected"), [(0, []), (1, [4]), (3, [2, 3, 4]), (5, [0, 1, 2, 3, 4]), (9, [0, 1, 2, 3, 4])]
    )
    def test_at_most_so_many_and_the_last_of_them(self, limit: int, expected: list[int]) -> None:
        assert ids(filled([2] * 5), limit) == expected

    def test_what_was_read_does_not_change_afterwards_and_nothing_is_copied(self) -> None:
        """A frame cannot be changed."""
        log, kept = filled([2] * 3, messages=3), frame(9)
        read = log.recent(3)
        log.append(kept)
        assert [each.metadata.id for each in read] == ["0", "1", "2"]
        assert log.recent(1)[0] is kept

    def test_less_than_none_is_refused(self) -> None:
        with pytest.raises(InvalidArgumentError, match="limit is -1"):
            MemoryLog().recent(-1)


class TestItsBounds:
    @pytest.mark.parametrize("bounds", [{"messages": 0}, {"messages": -1}, {"bytes": 0}, {"messages": True}])
    def test_that_have_no_sense_are_refused_by_name(self, bounds: dict[str, int]) -> None:
        (name,) = bounds
        with pytest.raises(InvalidArgumentError, match=f"MemoryLog: {name} is"):
            MemoryLog(**bounds)
