"""The phases of pods: every transition is told once, in order, to functions, streams, those who wait, and the log."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from itertools import pairwise
from threading import Barrier, Event, Thread
from typing import Any

import msgspec
import pytest

from bandstand.errors import ChannelClosedError, ChannelTimeoutError, InvalidArgumentError
from bandstand.pod.enums import PodPhase
from bandstand.pod.phases import Phases, PodEvent

pytestmark = [pytest.mark.spec("S1"), pytest.mark.guarantee("G137")]

PENDING, RUNNING, TERMINATING = PodPhase.PENDING, PodPhase.RUNNING, PodPhase.TERMINATING
COMPLETED, FAILED = PodPhase.COMPLETED, PodPhase.FAILED

# How long anybody waits in here before the test has failed.
BOUND_MS = 10_000


def live(phases: Phases, pod: str = "a", number: int = 1, end: PodPhase = COMPLETED) -> list[PodEvent]:
    """A whole life of a pod."""
    return [phases.publish(pod, phase, number=number) for phase in (PENDING, RUNNING, TERMINATING, end)]


def seen(events: list[PodEvent]) -> list[tuple[str, PodPhase, int]]:
    return [(event.pod, event.phase, event.number) for event in events]


# --- events -----------------------------------------------------------------------------------------------------------


def test_before_anything_happens_a_pod_is_pending_and_has_no_number() -> None:
    phases = Phases(["a", "b"])
    assert phases.history == ()
    assert (phases.of("a").phase, phases.of("a").number, phases.of("a").reason) == (PENDING, 0, "")
    with pytest.raises(InvalidArgumentError, match=r"^there is no pod 'c': there is a, b$"):
        phases.of("c")
    with pytest.raises(InvalidArgumentError, match="there is no pod 'c'"):
        phases.publish("c", RUNNING, number=1)
    with pytest.raises(InvalidArgumentError, match="there is no pod 'a': there is none"):
        Phases([]).of("a")


def test_an_event_says_what_why_which_and_when() -> None:
    phases = Phases(["a"])
    phases.publish("a", PENDING, number=1)
    running = phases.publish("a", RUNNING, number=1)
    failed = phases.publish("a", FAILED, "killed by SIGKILL", number=1)
    assert (failed.pod, failed.phase, failed.reason, failed.number) == ("a", FAILED, "killed by SIGKILL", 1)
    assert phases.of("a") is failed
    assert 0 <= running.since_start <= failed.since_start
    assert abs(failed.at - running.at) < BOUND_MS
    assert str(failed) == "pod 'a' #1 is failed: killed by SIGKILL"
    assert str(running) == "pod 'a' #1 is running"
    assert seen([*phases.history]) == [("a", PENDING, 1), ("a", RUNNING, 1), ("a", FAILED, 1)]
    assert b'"phase":"failed"' in msgspec.json.encode(failed)
    with pytest.raises(AttributeError):
        failed.phase = RUNNING  # type: ignore[misc]  # frozen


# --- functions --------------------------------------------------------------------------------------------------------


def test_a_function_is_called_from_then_on_until_it_is_taken_back() -> None:
    phases, heard, more = Phases(["a"]), list[PodEvent](), list[PodEvent]()
    phases.publish("a", PENDING, number=1)
    take_back = phases.listen(heard.append)
    hear_more = more.append
    phases.listen(hear_more)
    phases.listen(hear_more)()
    running = phases.publish("a", RUNNING, number=1)
    phases.join(BOUND_MS / 1000)
    take_back()
    take_back()
    failed = phases.publish("a", FAILED, number=1)
    phases.join(BOUND_MS / 1000)
    assert heard == [running]
    assert more == [running, failed]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_a_function_raises_is_logged_and_all_functions_are_called_again(
    error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    phases, heard, others = Phases(["a"]), list[PodEvent](), list[PodEvent]()

    def interrupt(event: PodEvent) -> None:
        heard.append(event)
        raise error

    phases.listen(interrupt)
    phases.listen(others.append)
    events = [phases.publish("a", phase, number=1) for phase in (RUNNING, FAILED)]
    phases.join(BOUND_MS / 1000)
    assert heard == others == events
    first, _second = [record.getMessage() for record in caplog.records if record.exc_info]
    assert "raised when it was called with pod 'a' #1 is running" in first


def test_a_function_that_tells_is_heard_in_order() -> None:
    phases, heard, followed = Phases(["a", "b"]), list[PodEvent](), list[PodEvent]()

    def follow(event: PodEvent) -> None:
        if event.pod == "a":
            followed.append(phases.publish("b", event.phase, number=event.number))

    phases.listen(follow)
    phases.listen(heard.append)
    live(phases)
    phases.join(BOUND_MS / 1000)
    assert [event.phase for event in heard if event.pod == "b"] == [PENDING, RUNNING, TERMINATING, COMPLETED]
    assert followed == [event for event in heard if event.pod == "b"]
    assert heard == [*phases.history]


def test_a_function_that_waits_holds_up_nothing_but_itself() -> None:
    phases, slow, heard = Phases(["a"]), list[PodEvent](), list[PodEvent]()
    is_open = Event()

    def wait(event: PodEvent) -> None:
        assert is_open.wait(BOUND_MS / 1000)
        slow.append(event)

    take_back = phases.listen(wait)
    phases.listen(heard.append)
    told = live(phases)
    until = phases.until("a", COMPLETED, timeout=BOUND_MS / 1000).blocking()
    assert until == told[-1]
    assert slow == []
    is_open.set()
    phases.join(BOUND_MS / 1000)
    assert slow == heard == told
    take_back()


def test_a_slow_function_loses_events(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandstand.pod.phases.MAX_PENDING_EVENTS", 2)
    phases, heard = Phases(["a"]), list[PodEvent]()
    has_begun, is_open = Event(), Event()

    def wait(event: PodEvent) -> None:
        has_begun.set()
        assert is_open.wait(BOUND_MS / 1000)
        heard.append(event)

    phases.listen(wait)
    first = phases.publish("a", PENDING, number=1)
    assert has_begun.wait(BOUND_MS / 1000)
    rest = [phases.publish("a", phase, number=1) for phase in (RUNNING, TERMINATING, COMPLETED)]
    is_open.set()
    phases.join(BOUND_MS / 1000)
    assert heard == [first, *rest[1:]]
    (record,) = [record for record in caplog.records if "too slow" in record.getMessage()]
    assert "it was not called with 1 events before pod 'a' #1 is terminating" in record.getMessage()


def test_without_threads_a_function_is_called_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phases, heard = Phases(["a"]), list[PodEvent]()

    def refuse(_thread: Thread) -> None:
        raise RuntimeError("can't start new thread")

    phases.listen(heard.append)
    with monkeypatch.context() as patch:
        patch.setattr(Thread, "start", refuse)
        first = phases.publish("a", PENDING, number=1)
    second = phases.publish("a", RUNNING, number=1)
    phases.join(BOUND_MS / 1000)
    assert heard == [first, second]


@pytest.mark.real_time(reason="several threads tell at once")
def test_several_threads_tell_in_one_order() -> None:
    names = [f"pod{number}" for number in range(4)]
    phases, heard = Phases(names, keep=10_000), list[PodEvent]()
    phases.listen(heard.append)
    barrier = Barrier(len(names))

    def tell(name: str) -> None:
        barrier.wait(BOUND_MS / 1000)
        for number in range(1, 101):
            live(phases, name, number)

    threads = [Thread(target=tell, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_MS / 1000)
    phases.join(BOUND_MS / 1000)
    assert heard == [*phases.history]
    assert len(heard) == len(names) * 100 * 4
    assert all(one.since_start <= other.since_start for one, other in pairwise(heard))
    for name in names:
        own = [event for event in heard if event.pod == name]
        assert [event.number for event in own] == [number for number in range(1, 101) for _ in range(4)]


# --- streams ----------------------------------------------------------------------------------------------------------


async def test_every_reader_gets_everything_until_the_troupe_is_over() -> None:
    phases, heard = Phases(["a"]), [list[PodEvent](), list[PodEvent]()]
    ready = asyncio.Event()

    async def read(into: list[PodEvent]) -> None:
        stream = aiter(phases)
        if into is heard[1]:
            ready.set()
        into += [event async for event in stream]

    async with asyncio.timeout(BOUND_MS / 1000), asyncio.TaskGroup() as group:
        for each in heard:
            group.create_task(read(each))
        await ready.wait()
        told = live(phases)
        phases.close()
    assert heard == [told, told]
    assert [event async for event in phases] == []


def test_a_plain_thread_waits_for_the_next_event() -> None:
    phases = Phases(["a"])
    stream, heard = phases.stream(), list[PodEvent]()
    thread = Thread(target=lambda: heard.append(stream.receive(timeout=BOUND_MS / 1000).blocking()))
    thread.start()
    event = phases.publish("a", RUNNING, number=1)
    thread.join(BOUND_MS / 1000)
    assert heard == [event]


@pytest.mark.slow
def test_a_stream_that_nobody_has_is_forgotten() -> None:
    phases = Phases(["a"])
    forgotten = weakref.ref(phases.stream())
    gc.collect()
    assert forgotten() is None
    phases.publish("a", RUNNING, number=1)
    phases.close()


# --- waiting for a phase ----------------------------------------------------------------------------------------------


async def test_who_waits_for_a_phase_gets_the_event_by_which_it_came() -> None:
    phases = Phases(["a", "b"])
    ended = phases.until("a", COMPLETED, FAILED, timeout=BOUND_MS / 1000)
    later = phases.until("a", RUNNING, number=2, timeout=BOUND_MS / 1000)
    any_of_b = phases.until("b", number=1, timeout=BOUND_MS / 1000)
    first = live(phases, end=FAILED)[-1]
    live(phases, "b")
    second = live(phases, number=2)[1]
    assert await ended is first
    assert await later is second
    assert phases._waiters == {}  # pyright: ignore[reportPrivateUsage]  # who has what it wanted listens no more
    assert seen([await any_of_b]) == [("b", PENDING, 1)]
    # What is there already is there at once.
    assert await phases.until("a", COMPLETED, timeout=0.0) is phases.of("a")
    with pytest.raises(ChannelTimeoutError, match="phases of 'a'"):
        await phases.until("a", RUNNING, timeout=0.0)
    with pytest.raises(InvalidArgumentError, match="there is no pod 'c'"):
        await phases.until("c", RUNNING, timeout=0.0)


async def test_when_the_troupe_is_over_nobody_waits_in_vain() -> None:
    phases = Phases(["a"])
    waiting = phases.until("a", RUNNING, timeout=BOUND_MS / 1000)
    phases.close()
    phases.close()
    with pytest.raises(ChannelClosedError):
        await waiting
    with pytest.raises(ChannelClosedError):
        await phases.until("a", RUNNING, timeout=BOUND_MS / 1000)
    assert await phases.until("a", PENDING, timeout=BOUND_MS / 1000) is phases.of("a")
    # Only the one who came before the end is still known, until something is told.
    assert len(phases._waiters) == 1  # pyright: ignore[reportPrivateUsage]  # nobody else can tell


@pytest.mark.parametrize("wanted", [RUNNING, FAILED])
def test_who_has_waited_in_vain_is_forgotten(wanted: PodPhase, caplog: pytest.LogCaptureFixture) -> None:
    phases = Phases(["a"])
    with pytest.raises(ChannelTimeoutError):
        phases.until("a", wanted, timeout=0.0).blocking()
    gc.collect()
    phases.publish("a", RUNNING, number=1)
    assert phases._waiters == {}  # pyright: ignore[reportPrivateUsage]  # nobody else can tell
    assert [record for record in caplog.records if record.exc_info] == []


# --- the log ----------------------------------------------------------------------------------------------------------


def test_every_transition_is_one_line_with_its_fields(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="bandstand.pod")
    phases = Phases(["a"])
    for phase, reason in ((PENDING, ""), (RUNNING, ""), (FAILED, "exit code 3")):
        phases.publish("a", phase, reason, number=1)
    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "pod 'a' #1 is pending"),
        ("INFO", "pod 'a' #1 is running"),
        ("WARNING", "pod 'a' #1 is failed: exit code 3"),
    ]
    fields: Any = caplog.records[-1]
    assert (fields.pod, fields.phase, fields.reason, fields.number) == ("a", "failed", "exit code 3", 1)
