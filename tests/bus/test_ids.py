"""Ids: sorted, unique, and readable as time, whatever the clock does."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.frame import IdGenerator

ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
MS = 1_000_000
TAIL_BITS = 20

pytestmark = [pytest.mark.spec("C1"), pytest.mark.guarantee("G72")]

# Every moment that 48 bits of milliseconds can hold.
# Nanoseconds are 64 bits: until the year 2262.
MOMENTS = st.integers(0, (1 << 63) // MS - 2)
STEPS = st.lists(st.integers(-5 * MS, 5 * MS), min_size=1, max_size=60)


class Hand:
    """A clock that is set by hand, in nanoseconds."""

    def __init__(self, now: int = 1_767_910_000_000 * MS) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


def time_of(made: str) -> int:
    """The milliseconds in an id."""
    number = 0
    for letter in made[:10]:
        number = number * 32 + ALPHABET.index(letter)
    return number


def highest(count: int) -> bytes:
    return b"\xff" * count


@given(steps=STEPS, repeats=st.integers(1, 4))
def test_ids_are_sorted_and_unique_however_the_clock_goes(steps: list[int], repeats: int) -> None:
    clock = Hand()
    make = IdGenerator(clock)
    made: list[str] = []
    for step in steps:
        clock.now += step
        made += [make() for _ in range(repeats)]
    assert all(one < other for one, other in pairwise(made))


@given(now=MOMENTS)
def test_an_id_is_26_letters_and_digits_and_tells_its_time(now: int) -> None:
    make = IdGenerator(Hand(now * MS))
    for made in (make(), make()):
        assert len(made) == 26
        assert set(made) <= set(ALPHABET)
        assert time_of(made) == now


def test_the_alphabet_sorts_as_text_does_and_leaves_out_what_is_misread() -> None:
    assert sorted(ALPHABET) == list(ALPHABET)
    assert len(ALPHABET) == 32
    assert not set("ILOU") & set(ALPHABET)


@given(back=st.integers(1, 10_000_000))
def test_a_clock_that_is_set_back_does_not_undo_the_order(back: int) -> None:
    clock = Hand()
    make = IdGenerator(clock)
    before = make()
    clock.now -= back * MS
    after = make()
    assert before < after
    assert time_of(after) == time_of(before), "the last millisecond seen goes on"


def test_randomness_is_drawn_once_a_millisecond() -> None:
    drawn: list[int] = []

    def draw(count: int) -> bytes:
        drawn.append(count)
        return bytes(count)

    clock = Hand()
    make = IdGenerator(clock, draw)
    for _ in range(3):
        for _ in range(100):
            make()
        clock.now += MS
    assert drawn == [10, 10, 10]


def test_two_makers_at_one_moment_make_different_ids() -> None:
    clock = Hand()
    one, other = IdGenerator(clock), IdGenerator(clock)
    assert not {one() for _ in range(1000)} & {other() for _ in range(1000)}


class TestTheTailRunsOver:
    def test_the_head_counts_on(self) -> None:
        clock = Hand()
        # All ones: the tail is at its end at once, and so is everything above it but the bit that stays clear.
        make = IdGenerator(clock, highest)
        first, second = make(), make()
        assert first < second
        assert first.endswith("ZZZZ")
        assert second.endswith("0000")

    def test_even_the_highest_draw_does_not_reach_into_the_time(self) -> None:
        clock = Hand()
        make = IdGenerator(clock, highest)
        made = [make() for _ in range(5)]
        assert {time_of(entry) for entry in made} == {clock.now // MS}
        clock.now += MS
        assert make() > made[-1]

    @pytest.mark.slow
    def test_more_than_a_whole_tail_in_one_millisecond_stays_sorted(self) -> None:
        clock = Hand()
        make = IdGenerator(clock, bytes)
        last = make()
        for _ in range((1 << TAIL_BITS) + 10):
            made = make()
            assert made > last
            last = made


def test_the_time_that_goes_with_an_id_can_be_asked_for() -> None:
    clock = Hand(7 * MS + 999_999)
    make = IdGenerator(clock)
    made = make()
    assert make.last_ms == time_of(made) == 7
    clock.now += MS
    assert make.now_ms() == 8
    assert make.last_ms == 7, "asking for the time makes no id"


def test_by_default_the_time_is_now() -> None:
    made = IdGenerator()()
    # Between the year in which this was written and the one in which 48 bits run out.
    assert 1_760_000_000_000 < time_of(made) < 1 << 47
