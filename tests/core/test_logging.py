"""What the loop logs: failures once with their traceback, losses with a rate limit, nothing for a normal exit."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from bandstand.core import Loop, Overflow
from bandstand.errors import ActorFailedError
from bandstand.testing import VirtualClock
from tests.core.support import Boom, failer, idle, numbers_logged, panicker, settle, stopper


@pytest.fixture(autouse=True)
def level(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG, logger="bandstand"):
        yield


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [entry for entry in caplog.records if entry.levelno >= logging.ERROR]


@pytest.mark.guarantee("G23")
def test_an_unsupervised_panic_is_logged_once(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    actors = [loop.spawn(panicker, name="lonely") for _ in range(2)]
    for actor in actors:
        for number in range(3):
            loop.send(actor, number)
    settle(loop)
    first, second = errors(caplog)
    for part in (repr(actors[0]), "lonely", "PANIC", "2 of its messages became dead letters"):
        assert part in first.getMessage()
    assert "of its kind" not in first.getMessage()
    assert "(number 2 of its kind" in second.getMessage()
    assert first.exc_info
    assert isinstance(first.exc_info[1], Boom)
    assert "panicker" in caplog.text, "the traceback shows the behavior"
    assert first.name == "bandstand.core"


@pytest.mark.guarantee("G23")
@pytest.mark.parametrize("reason", [None, "because"])
def test_an_unsupervised_failure_is_logged_once(
    loop: Loop, caplog: pytest.LogCaptureFixture, reason: str | None
) -> None:
    actor = loop.spawn(idle)
    loop.fail_actor(actor, reason)
    (entry,) = errors(caplog)
    assert "FAIL" in entry.getMessage()
    assert "(unnamed)" in entry.getMessage()
    if reason is not None:
        assert entry.exc_info
        assert isinstance(entry.exc_info[1], ActorFailedError)
        assert "because" in caplog.text


@pytest.mark.guarantee("G23")
def test_what_a_supervisor_hears_and_a_normal_end_are_not_logged(
    loop: Loop, caplog: pytest.LogCaptureFixture
) -> None:
    boss = loop.spawn(idle)
    for behavior in (panicker, failer, stopper):
        loop.send(loop.spawn(behavior, supervisor=boss), "x")
    loop.send(loop.spawn(stopper), "x")
    loop.run(until_idle=True)
    loop.destroy()
    assert caplog.records == []


@pytest.mark.guarantee("G9")
@pytest.mark.parametrize("word", ["dead letters", "dropped"])
def test_losses_are_logged_with_counts(
    loop: Loop, clock: VirtualClock, caplog: pytest.LogCaptureFixture, word: str
) -> None:
    def lose(count: int) -> None:
        if word == "dropped":
            for number in range(count + 1):
                loop.send(dropping, number)
        else:
            actor = loop.spawn(idle)
            for number in range(count):
                loop.send(actor, number)
            loop.stop_actor(actor)
        settle(loop)

    dropping = loop.spawn(idle, mailbox_cap=5, overflow=Overflow.DROP_OLDEST)
    lose(3)
    assert numbers_logged(caplog.records, word) == [(3, 3)]
    for _ in range(10):
        lose(2)
        clock.advance(0.099)
    assert numbers_logged(caplog.records, word) == [(3, 3)], "less than a second ago"
    clock.advance(0.01)
    lose(1)
    assert numbers_logged(caplog.records, word) == [(3, 3), (21, 24)]
    lose(5)
    loop.destroy()
    lines = numbers_logged(caplog.records, word)
    assert sum(count for count, _ in lines) == 29, "the last second's are mentioned at the end"
    assert lines[-1][1] == 29


def test_the_loop_configures_no_logging_of_its_own() -> None:
    assert logging.getLogger("bandstand.core").handlers == []
    assert logging.getLogger("bandstand.core").level == logging.NOTSET
