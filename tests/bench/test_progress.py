"""How far the run is, how long it still takes, and which rounds there is time for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import child, runner
from bench.case import Case, Outcome, Setting, Size
from bench.progress import Pace
from bench.runner import Cell, Cells, Turn
from bench.scale import Scale
from bench.system import SYSTEMS, by_name


def nothing(setting: Setting) -> Outcome:
    return Outcome(total=setting.size, operations=1, sent=1, handled=1)


def case(name: str, most_rounds: int = 99) -> Case:
    size = Size(100, 100, 1, brief=10)
    return Case(
        name=name, title=name, what=name, size=size, measures={"limit": nothing}, most_rounds=most_rounds
    )


LIMIT = SYSTEMS[0]


class Watch:
    """A clock that somebody sets."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_round_that_would_not_fit_is_not_begun() -> None:
    plan = runner.plan([case("a"), case("b")], [LIMIT], rounds=3)
    pace = Pace(plan, budget=12.0)
    pace.take(plan[0][0], 3.0)
    # Of b nothing is known yet: it may take as long as a.
    assert pace.left(0, 1) == 3.0 + 6.0
    pace.take(plan[0][1], 1.0)
    assert pace.left(0, 2) == 8.0
    assert pace.has_time(1)
    for turn in plan[1]:
        pace.take(turn, 3.0)
    assert not pace.has_time(2)
    assert Pace(plan, budget=None).has_time(2)


class Stubborn:
    """A witness who has no time for a third round, and has enough of it all at some turn."""

    def __init__(self, last: int) -> None:
        self.seen: list[Turn] = []
        self.last = last

    def has_time(self, round_: int) -> bool:
        return round_ < 2

    def tell(self, turn: Turn, cell: Cell) -> None:
        self.seen.append(turn)
        if len(self.seen) == self.last:
            raise KeyboardInterrupt


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """No child is started: what one would have been asked."""
    asked: list[list[str]] = []

    def child(_system: object, arguments: list[str]) -> tuple[dict[str, object], str]:
        asked.append(arguments)
        return {"value": float(len(asked)), "sent": 1, "handled": 1}, ""

    monkeypatch.setattr(runner, "_child", child)
    return asked


def test_what_was_measured_before_the_time_was_up_is_kept(
    asked: list[list[str]],
) -> None:
    cells: Cells = {}
    assert runner.run(runner.plan([case("a")], [LIMIT], rounds=9), cells, Stubborn(99)) == 2
    assert [reading["value"] for reading in cells["a", "limit"].readings] == [1.0, 2.0]
    cells.clear()
    with pytest.raises(KeyboardInterrupt):
        runner.run(runner.plan([case("a"), case("b")], [LIMIT], rounds=2), cells, Stubborn(1))
    assert {key: cell.value for key, cell in cells.items()} == {("a", "limit"): 3.0}


@pytest.mark.parametrize("system", ["limit", "interpreted"])
@pytest.mark.parametrize(
    ("scale", "size", "repeats", "seconds"),
    [("full", "100", "3", "4.0"), ("brief", "10", "2", "1.5"), ("quick", "1", "1", "0.0")],
)
def test_every_system_is_measured_by_the_same_rule_and_the_scale_says_how_much_is_done(
    system: str, scale: Scale, size: str, repeats: str, seconds: str, asked: list[list[str]]
) -> None:
    both = replace(case("a"), measures={"limit": nothing, "raw": nothing})
    runner.run(runner.plan([both], [by_name(system)], 1), {}, Stubborn(99), scale=scale)
    assert asked[0][:2] == ["a", system]
    assert system == "interpreted" or asked[0][2] == size
    assert asked[0][3:6] == [repeats, "--seconds", seconds]
    assert ("--quick" in asked[0]) is (scale == "quick")


@pytest.mark.parametrize(
    ("takes", "seconds", "readings"),
    [([1.0] * 9, 99.0, 5), ([1.0] * 9, 3.5, 3), ([9.0], 3.5, 1), ([0.5, 2.0, 1.0], 4.0, 2)],
)
def test_as_many_readings_are_taken_as_there_is_time_for(
    takes: list[float], seconds: float, readings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch, left = Watch(), iter(takes)

    def slow(setting: Setting) -> Outcome:
        watch.now += next(left)
        return nothing(setting)

    monkeypatch.setattr(child, "monotonic", watch)
    slowly = Case(name="a", title="a", what="a", size=Size(1, 1, 1), measures={"limit": slow})
    assert child.measure(slowly, LIMIT, Setting(1), 5, seconds)[1] == readings
