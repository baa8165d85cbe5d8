"""Taps: they see what they want to see, cost nothing when there are none, and break nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.frame import KINDS, Frame, Kind, Metadata
from bandstand.bus.tap import Filter, Tap, Taps
from bandstand.errors import InvalidArgumentError

pytestmark = [pytest.mark.spec("C26")]


def frame(kind: Kind = "event", type: str = "Memory.Changed") -> Frame:  # noqa: A002  # its name on the wire
    return Frame(kind=kind, type=type, metadata=Metadata("x", 1))


class Watcher:
    """Writes down what it sees; raises if it is told to."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.seen: list[tuple[str, str]] = []
        self.error = error

    def __call__(self, frame: Frame, destination: str) -> None:
        self.seen.append((frame.type, destination))
        if self.error is not None:
            raise self.error


class TestFilter:
    @pytest.mark.parametrize(
        ("pattern", "name", "is_wanted"),
        [
            ("Memory.Set", "Memory.Set", True),
            ("Memory.Set", "Memory.Sets", False),
            ("Memory.Set", "memory.set", False),
            ("Memory.*", "Memory.Set", True),
            ("Memory.*", "Memory.Deep.Set", True),
            ("Memory.*", "Memory", False),
            ("Memory.*", "MemoryBank.Set", False),
            ("Memory.Deep.*", "Memory.Set", False),
            ("*", "Memory.Set", True),
        ],
    )
    def test_types_are_picked_by_name_or_prefix(self, pattern: str, name: str, is_wanted: bool) -> None:
        assert Filter(types=[pattern]).matches(frame(type=name)) is is_wanted

    @given(
        kinds=st.sets(st.sampled_from(KINDS)),
        patterns=st.sets(st.sampled_from(["*", "A.*", "A.B.*", "A.B", "C.D"])),
        kind=st.sampled_from(KINDS),
        name=st.sampled_from(["A.B", "A.C", "A.B.C", "C.D", "C.E", "A"]),
    )
    def test_it_is_what_its_sentence_says(
        self, kinds: set[Kind], patterns: set[str], kind: Kind, name: str
    ) -> None:
        is_kind = not kinds or kind in kinds
        is_type = not patterns or any(
            pattern in {"*", name} or (pattern.endswith(".*") and name.startswith(pattern[:-1]))
            for pattern in patterns
        )
        assert Filter(kinds=kinds, types=patterns).matches(frame(kind, name)) is (is_kind and is_type)

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"kinds": ["wish"]}, "'wish' is not a kind: pass some of command, query"),
            ({"kinds": "event"}, "kinds is 'event': pass several strings"),
            ({"types": "Memory.*"}, "types is 'Memory.*': pass several strings"),
            ({"types": 5}, "types is 5"),
            ({"types": [""]}, "'' is not a type"),
            ({"types": [5]}, "5 is not a type"),
            ({"types": ["Mem*"]}, "use * alone or after the last dot"),
            ({"types": ["*.Set"]}, "use * alone"),
            ({"types": ["A.*.B"]}, "use * alone"),
            ({"types": ["A.**"]}, "use * alone"),
            ({"types": [".*"]}, "use * alone"),
            ({"types": ["A.*.*"]}, "use * alone"),
        ],
    )
    def test_what_is_wrong_with_it_is_told_when_it_is_made(self, wrong: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidArgumentError) as caught:
            Filter(**wrong)
        assert message in str(caught.value)


class TestTaps:
    def test_all_see_it_in_the_order_in_which_they_came(self) -> None:
        taps, order = Taps(), list[str]()
        taps.add(lambda frame, destination: order.append(f"first {frame.type} {destination}"))
        taps.add(lambda frame, destination: order.append(f"second {frame.type} {destination}"))
        taps.notify(frame(), "Audit")
        assert order == ["first Memory.Changed Audit", "second Memory.Changed Audit"]
        assert len(taps) == 2

    def test_one_that_is_removed_sees_nothing_any_more(self) -> None:
        taps, watcher = Taps(), Watcher()
        tap = taps.add(watcher)
        taps.notify(frame(), "a")
        tap.remove()
        tap.remove()
        taps.notify(frame(), "b")
        assert watcher.seen == [("Memory.Changed", "a")]
        assert tap.is_removed
        assert not taps

    def test_the_same_function_may_watch_twice_and_each_is_removed_alone(self) -> None:
        taps, watcher = Taps(), Watcher()
        first = taps.add(watcher, Filter(kinds=["event"]))
        taps.add(watcher)
        first.remove()
        taps.notify(frame(), "a")
        assert len(watcher.seen) == 1

    def test_one_that_is_added_meanwhile_sees_the_next(self) -> None:
        taps, late = Taps(), Watcher()
        added: list[Tap] = []

        def add(frame: Frame, destination: str) -> None:
            if not added:
                added.append(taps.add(late))

        taps.add(add)
        taps.notify(frame(), "a")
        assert late.seen == []
        taps.notify(frame(), "b")
        assert late.seen == [("Memory.Changed", "b")]

    def test_one_that_is_removed_meanwhile_does_not_see_this_one(self) -> None:
        taps, watcher = Taps(), Watcher()
        taps.add(lambda frame, destination: tap.remove())
        tap = taps.add(watcher)
        taps.notify(frame(), "a")
        assert watcher.seen == []

    @pytest.mark.parametrize("wrong", [None, 5, "print"])
    def test_what_cannot_be_called_cannot_watch(self, wrong: Any) -> None:
        with pytest.raises(InvalidArgumentError, match="is not callable"):
            Taps().add(wrong)

    def test_what_is_no_filter_is_none(self) -> None:
        wrong: Any = "Memory.*"
        with pytest.raises(InvalidArgumentError, match="pass a Filter"):
            Taps().add(Watcher(), wrong)


class TestOneThatRaises:
    def test_is_logged_and_removed_and_the_others_go_on(self, caplog: pytest.LogCaptureFixture) -> None:
        taps, bad, good = Taps(), Watcher(RuntimeError("broken lens")), Watcher()
        tap = taps.add(bad)
        taps.add(good)
        with caplog.at_level(logging.ERROR, "bandstand.bus"):
            taps.notify(frame(), "a")
            taps.notify(frame(), "b")
        assert len(bad.seen) == 1
        assert len(good.seen) == 2
        assert tap.is_removed
        (record,) = caplog.records
        assert "was removed" in record.getMessage()
        assert "broken lens" in caplog.text

    def test_unless_somebody_wants_to_end_the_program(self) -> None:
        taps = Taps()
        taps.add(Watcher(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            taps.notify(frame(), "a")
        assert taps
