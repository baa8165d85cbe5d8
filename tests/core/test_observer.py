"""Observers: every hook at its moment, on the thread of the loop."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, ExitReason, Loop, Observer
from bandstand.errors import InvalidArgumentError, MailboxFullError
from tests.core.support import (
    Boom,
    OnStop,
    RecordingObserver,
    Seen,
    check_statistics,
    exits,
    idle,
    in_thread,
    record,
    settle,
    stopper,
)

HOOKS = (
    "on_actor_start",
    "on_actor_stop",
    "on_actor_restart",
    "on_supervisor_escalate",
    "on_mailbox_full",
    "on_dead_letter",
    "on_dropped",
)


@pytest.mark.spec("J16")
def test_the_observer_knows_the_specifications_hooks() -> None:
    assert tuple(name for name in vars(Observer) if name.startswith("on_")) == HOOKS
    quiet = Observer()
    actor: Any = None
    quiet.on_actor_start(actor, None)
    quiet.on_actor_stop(actor, ExitReason.NORMAL)
    quiet.on_actor_restart(actor, actor, 1)
    quiet.on_supervisor_escalate(actor)
    quiet.on_mailbox_full(actor)


@pytest.mark.spec("J16")
@pytest.mark.guarantee("G24")
@pytest.mark.parametrize(
    "hook", ["on_actor_start", "on_actor_stop", "on_mailbox_full", "on_dead_letter", "on_dropped"]
)
def test_a_hook_that_raises_is_logged(loop: Loop, hook: str, caplog: pytest.LogCaptureFixture) -> None:
    from bandstand.core import Overflow

    calls: list[str] = []

    def bad(*arguments: object) -> None:
        calls.append(hook)
        raise Boom(hook)

    loop.set_observer(type("Bad", (), {hook: staticmethod(bad)})())
    notes: list[Seen] = []
    boss = loop.spawn(record, notes)
    dropping = loop.spawn(idle, mailbox_cap=5, overflow=Overflow.DROP_OLDEST)
    child = loop.spawn(idle, supervisor=boss, mailbox_cap=5)
    for number in range(2):
        loop.send(dropping, number)
    loop.send(child, 1)
    with pytest.raises(MailboxFullError):
        loop.send(child, 2)
    loop.stop_actor(child)
    settle(loop)
    assert calls
    assert [note.child for note in exits(notes)] == [child]
    assert loop.status(dropping) is ActorStatus.RUNNING
    check_statistics(loop)
    contained = [entry for entry in caplog.records if entry.levelno == logging.ERROR]
    assert len(contained) == len(calls)
    assert all(entry.exc_info and isinstance(entry.exc_info[1], Boom) for entry in contained)
    assert all("bad" in entry.getMessage() for entry in contained)
    loop.set_observer(None)


@pytest.mark.spec("J16")
@pytest.mark.guarantee("G24")
def test_the_latest_observer_is_told_on_the_thread_of_the_loop(loop: Loop) -> None:
    """It may have only some of the hooks."""
    threads: list[str] = []
    first = RecordingObserver()
    loop.set_observer(first)
    actor = loop.spawn(stopper)
    loop.set_observer(OnStop(lambda actor, reason: threads.append(threading.current_thread().name)))
    loop.send(actor, "x")
    in_thread(lambda: loop.run(until_idle=True), name="runner")
    assert threads == ["runner"]
    assert (len(first.started), first.stopped) == (1, [])


class Misspelt:
    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
        """Fine."""

    def on_actor_stopped(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        """Never called by anybody."""


class Attribute:
    on_actor_start = "not a method"


@pytest.mark.spec("J16")
@pytest.mark.parametrize(
    ("observer", "words"),
    [
        (Misspelt(), "on_actor_stopped"),
        (object(), "is not an observer"),
        (7, "is not an observer"),
        (Attribute(), "on_actor_start"),
    ],
    ids=["misspelt", "none", "number", "attribute"],
)
def test_a_wrong_observer_is_refused(
    loop: Loop, diary: RecordingObserver, observer: object, words: str
) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        loop.set_observer(observer)
    loop.spawn(idle)
    assert len(diary.started) == 1
