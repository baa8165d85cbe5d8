"""An actor that keeps failing does not flood the log: one traceback, some lines, then only a count."""

from __future__ import annotations

import logging

import pytest

from bandstand.core import Context, Loop
from bandstand.supervision import ChildSpec, DynamicSpec, RestartPolicy, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.core.support import Boom, settle
from tests.supervision.helpers import id_of, supervise

pytestmark = pytest.mark.guarantee("G285")


def crash(_ctx: Context[None], what: object) -> None:
    raise Boom(what)


def test_the_first_has_its_traceback_the_next_a_line_and_the_rest_are_counted(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tree = supervise(loop, ChildSpec("kid", crash), max_restarts=1000)
    for number in range(100):
        loop.send(id_of(tree, "kid"), number)
        settle(loop)
    lines = [entry for entry in caplog.records if entry.name == "bandstand.supervision"]
    assert [bool(line.exc_text and "Traceback" in line.exc_text) for line in lines] == [True] + [False] * 9
    assert "number 2 of its kind" in lines[1].getMessage()
    clock.advance(1.1)
    settle(loop)
    loop.destroy()
    counted = [entry.getMessage() for entry in caplog.records if "were not logged" in entry.getMessage()]
    assert sum(int(words.split()[0]) for words in counted) == 90


def test_the_traceback_is_logged_again(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tree = supervise(loop, ChildSpec("kid", crash), max_restarts=1000)
    for _ in range(3):
        loop.send(id_of(tree, "kid"), 1)
        settle(loop)
        clock.advance(40.0)
        settle(loop)
    lines = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert ["Traceback" in str(line.exc_text) for line in lines] == [True, False, True]


class TestStorms:
    """Many actors of one kind that fail alike are one storm, whatever their names are."""

    def lines(self, caplog: pytest.LogCaptureFixture) -> list[str]:
        formatter = logging.Formatter("%(message)s")
        return [
            formatter.format(each)
            for each in caplog.records
            if each.levelno >= logging.WARNING and "reason PANIC" in each.getMessage()
        ]

    def test_children_of_a_dynamic_supervisor_that_are_not_restarted(
        self, loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
    ) -> None:
        template = ChildSpec("kid", crash, restart=RestartPolicy.NEVER)
        tree = spawn_supervisor(loop, DynamicSpec(child=template))
        for number in range(100):
            loop.send(tree.start_child(), number)
            settle(loop)
        lines = self.lines(caplog)
        assert ["Traceback" in line for line in lines] == [True] + [False] * 9
        clock.advance(1.1)
        loop.destroy()
        counted = [each.getMessage() for each in caplog.records if "were not logged" in each.getMessage()]
        assert sum(int(words.split()[0]) for words in counted) == 90

    def test_actors_without_a_supervisor_with_names_of_their_own(
        self, loop: Loop, caplog: pytest.LogCaptureFixture
    ) -> None:
        for number in range(100):
            loop.send(loop.spawn(crash, name=f"session {number}"), number)
        settle(loop)
        lines = self.lines(caplog)
        assert ["Traceback" in line for line in lines] == [True] + [False] * 9

    def test_another_behavior_is_another_kind(self, loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
        def crash_too(ctx: Context[None], what: object) -> None:
            crash(ctx, what)

        for behavior in (crash, crash_too):
            loop.send(loop.spawn(behavior, name="one"), 1)
        settle(loop)
        assert ["Traceback" in line for line in self.lines(caplog)] == [True, True]
