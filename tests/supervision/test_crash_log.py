"""An actor that keeps failing does not flood the log: one traceback, some lines, then only a count."""

from __future__ import annotations

import logging

import pytest

from bandstand.core import Context, Loop
from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.core.support import Boom, settle
from tests.supervision.helpers import id_of

pytestmark = pytest.mark.guarantee("G285")


def crash(_ctx: Context[None], what: object) -> None:
    raise Boom(what)


def test_the_first_has_its_traceback_the_next_a_line_and_the_rest_are_counted(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("kid", crash)], intensity=1000))
    for number in range(100):
        loop.send(id_of(tree, "kid"), number)
        settle(loop)
    lines = [entry for entry in caplog.records if entry.name == "bandstand.supervision"]
    assert [bool(line.exc_text and "Traceback" in line.exc_text) for line in lines] == [True] + [False] * 9
    assert "number 2 of its kind" in lines[1].getMessage()
    clock.advance(1_100)
    settle(loop)
    loop.destroy()
    counted = [entry.getMessage() for entry in caplog.records if "were not logged" in entry.getMessage()]
    assert sum(int(words.split()[0]) for words in counted) == 90


def test_after_a_minute_the_traceback_is_logged_again(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    tree = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("kid", crash)], intensity=1000))
    for _ in range(3):
        loop.send(id_of(tree, "kid"), 1)
        settle(loop)
        clock.advance(40_000)
        settle(loop)
    lines = [entry for entry in caplog.records if entry.levelno == logging.WARNING]
    assert ["Traceback" in str(line.exc_text) for line in lines] == [True, False, True]
