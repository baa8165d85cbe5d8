"""Events of typed actors and of supervisors show messages as they were sent, and methods by name."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, tell
from bandstand.actor.handle import checked_handle
from bandstand.core import (
    ActorId,
    DeadLetter,
    Dropped,
    Escalated,
    Lane,
    Overflow,
    Restarted,
    RuntimeEvent,
    Stalled,
    Unhandled,
)
from bandstand.errors import RestartLimitError, TargetEndedError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.conftest import LoopMaker

travels: ContextVar[str] = ContextVar("travels", default="")


class Counter(Actor):
    def __init__(self) -> None:
        self.total = 0

    @tell
    def add(self, n: int, twice: bool = False) -> None:
        self.total += n

    @tell(lane=Lane.CONTROL)
    def reset(self, to: int) -> None:
        self.total = to

    @ask
    def value(self) -> int:
        return self.total

    @tell
    def later(self) -> None:
        self.after(0.001, self.tick, 3)

    def tick(self, n: int) -> None:
        self.total += n


@pytest.fixture
def seen(loop: ActorSystem) -> list[RuntimeEvent]:
    seen: list[RuntimeEvent] = []
    loop.events.listen(seen.append)
    return seen


@pytest.mark.guarantee("G256")
def test_a_dead_letter_has_method_and_arguments(loop: ActorSystem, seen: list[RuntimeEvent]) -> None:
    counter = loop.spawn(Counter)
    actor = checked_handle(counter).__handle_actor__  # pyright: ignore[reportPrivateUsage]
    token = travels.set("along")  # the carried context is not part of the data
    counter.add(5, True)  # noqa: FBT003  # as it is sent
    counter.reset(7)
    travels.reset(token)
    asked = counter.value()
    counter.stop()
    assert seen == [
        DeadLetter(actor, Lane.CONTROL, 7, "Counter.reset()"),
        DeadLetter(actor, Lane.DATA, (5, True), "Counter.add()"),
        DeadLetter(actor, Lane.DATA, seen[2].data, "Counter.value()"),  # type: ignore[union-attr]
    ]

    async def wait() -> None:
        with pytest.raises(TargetEndedError):
            await asked

    asyncio.run(wait())


@pytest.mark.guarantee("G256")
def test_a_dropped_message_has_method_and_arguments(make_loop: LoopMaker) -> None:
    loop = make_loop(sys_reserved=1)
    seen: list[RuntimeEvent] = []
    loop.events.listen(seen.append)
    counter = loop.options(mailbox=1, overflow=Overflow.DROP_OLDEST).spawn(Counter)
    travels.set("along")
    counter.reset(1)
    counter.reset(2)
    (event,) = seen
    assert isinstance(event, Dropped)
    assert (event.lane, event.data, event.what) == (Lane.CONTROL, 1, "Counter.reset()")


@pytest.mark.guarantee("G256")
def test_a_deferred_call_that_never_runs_is_named_by_its_function(
    loop: ActorSystem, clock: VirtualClock, seen: list[RuntimeEvent]
) -> None:
    counter = loop.spawn(Counter)
    # Runs before the counter in the tick in which its timer fires: the call is queued and never runs.
    first = loop.spawn_raw(lambda _ctx, _data: counter.stop())
    counter.later()
    loop.poll_once()
    loop.send(first, None)
    clock.advance(0.005)
    loop.poll_once()
    (event,) = seen
    assert isinstance(event, DeadLetter)
    assert event.what == "Counter.tick()"


@pytest.mark.guarantee("G255", "G256", "G260")
def test_a_message_sent_without_the_handle_is_unhandled(
    loop: ActorSystem, seen: list[RuntimeEvent], caplog: pytest.LogCaptureFixture
) -> None:
    counter = loop.options(name="ann").spawn(Counter)
    actor = checked_handle(counter).__handle_actor__  # pyright: ignore[reportPrivateUsage]
    for number in (1, 2.5):
        loop.send(actor, number)
    loop.poll_once()
    assert seen == [Unhandled(actor, "ann", 1, "int"), Unhandled(actor, "ann", 2.5, "float")]
    assert loop.events.counts().unhandled == loop.ask_statistics().unhandled == 2
    assert "2 messages (2 in all) for which their actors have no method" in caplog.text
    assert "float, for" in caplog.text


class Shaky(Actor):
    @tell
    def fall(self) -> None:
        raise ValueError("fell")


@pytest.mark.guarantee("G255", "G256", "G260")
def test_restarts_and_an_escalation_are_published_counted_and_logged(
    loop: ActorSystem, seen: list[RuntimeEvent], caplog: pytest.LogCaptureFixture
) -> None:
    spec = SupervisorSpec(children=[child("shaky").of(Shaky)], max_restarts=3, period=60.0)
    boss = spawn_supervisor(loop, spec, name="boss")
    children: list[ActorId] = []
    caught: RestartLimitError | None = None
    for _ in range(4):
        actor = boss.child("shaky")
        assert actor is not None
        children.append(actor)
        loop.fail_actor(actor, "fell")
        try:
            for _ in range(5):
                loop.poll_once()
        except RestartLimitError as error:
            caught = error
    assert caught is not None
    told = [event for event in seen if isinstance(event, Restarted | Escalated)]
    assert told == [
        *(Restarted(boss.actor, children[number], number) for number in (1, 2, 3)),
        Escalated(boss.actor),
    ]
    counts = loop.events.counts()
    assert (counts.restarts, counts.escalations) == (3, 1)
    lines = [entry for entry in caplog.records if entry.name == "bandstand.supervision"]
    assert [entry.levelno for entry in lines] == [logging.WARNING] * 3 + [logging.ERROR], (
        "a line each, no more"
    )


class Sleepy(Actor):
    def __init__(self, said: threading.Semaphore) -> None:
        self.said = said

    @tell
    def doze(self, n: int) -> None:
        assert self.said.acquire(timeout=30)


@pytest.mark.guarantee("G259")
@pytest.mark.real_time(reason="a thread is blocked for real, for a few times 20 ms")
def test_a_stall_names_the_method(make_loop: LoopMaker, caplog: pytest.LogCaptureFixture) -> None:
    loop = make_loop(stall_timeout=0.02)
    seen: list[RuntimeEvent] = []
    loop.events.listen(seen.append)
    said = threading.Semaphore(0)

    class Heard(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if "blocked the loop" in record.getMessage():
                said.release()

    heard = Heard()
    logging.getLogger("bandstand.core").addHandler(heard)
    try:
        sleepy = loop.spawn(Sleepy, said)
        sleepy.doze(1)
        loop.run(until_idle=True)
    finally:
        logging.getLogger("bandstand.core").removeHandler(heard)
    (event,) = seen
    assert isinstance(event, Stalled)
    assert (event.name, event.what) == ("Sleepy", "Sleepy.doze()")
    assert "with a message, Sleepy.doze()" in caplog.text
