"""Support for tests of raw actors: behaviors, observers, clocks, and checks of a loop's counters."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from bandstand.core import (
    ActorId,
    ChildExit,
    Context,
    Down,
    ExitReason,
    Interest,
    Lane,
    Loop,
    Observer,
    Verdict,
)
from bandstand.testing import VirtualClock

LoopMaker = Callable[..., Loop]
HostFactory = Callable[[], asyncio.AbstractEventLoop]

PATIENCE = 30  # seconds to wait for what must come
USER_LANES = (Lane.CONTROL, Lane.MANAGEMENT, Lane.DATA)


def idle(ctx: Context[Any], data: object) -> None:
    """Ignore each message."""


def stopper(ctx: Context[Any], data: object) -> Verdict:
    return Verdict.STOP


def failer(ctx: Context[Any], data: object) -> Verdict:
    return Verdict.FAIL


class Boom(Exception):  # noqa: N818 -- a name for tests
    """Raised by behaviors that fail."""


def panicker(ctx: Context[Any], data: object) -> None:
    raise Boom(data)


def collect(ctx: Context[list[Any]], data: object) -> None:
    """Append the data of each message to the state."""
    ctx.state.append(data)


class Seen(NamedTuple):
    """One message as a behavior received it."""

    data: Any
    tag: int
    sender: ActorId | int
    lane: Lane


def record(ctx: Context[list[Seen]], data: object) -> None:
    """Append each message, with its tag, sender and lane, to the state."""
    ctx.state.append(Seen(data, ctx.tag, ctx.sender, ctx.lane))


def run_message(ctx: Context[Any], data: Callable[[Context[Any]], Verdict | None]) -> Verdict | None:
    """Call the message, a function of the context: for tests that act inside an actor."""
    return data(ctx)


def call_in(loop: Loop, actor: ActorId, deed: Callable[[Context[Any]], object]) -> None:
    """Call a function inside an actor whose behavior is `run_message`."""
    loop.send(actor, deed)


class RecordingObserver:
    """An observer that records all calls of its hooks."""

    def __init__(self) -> None:
        self.started: list[tuple[ActorId, str | None]] = []
        self.stopped: list[tuple[ActorId, ExitReason]] = []
        self.full: list[ActorId] = []
        self.dead: list[tuple[ActorId, Lane, object, int, ActorId | int]] = []
        self.dropped: list[tuple[ActorId, Lane, object, int, ActorId | int]] = []
        self.entries: list[str] = []

    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
        self.started.append((id, name))
        self.entries.append("start")

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        self.stopped.append((id, reason))
        self.entries.append("stop")

    def on_mailbox_full(self, target: ActorId) -> None:
        self.full.append(target)
        self.entries.append("full")

    def on_dead_letter(
        self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
    ) -> None:
        self.dead.append((target, lane, data, tag, sender))
        self.entries.append("dead")

    def on_dropped(self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int) -> None:
        self.dropped.append((target, lane, data, tag, sender))
        self.entries.append("dropped")


class OnStart(Observer):
    """An observer that calls a function with the id of each actor that starts."""

    def __init__(self, deed: Callable[[ActorId], object]) -> None:
        self._deed = deed

    def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
        self._deed(id)


class OnStop(Observer):
    """An observer that calls a function with the id of each actor that ends, and the reason."""

    def __init__(self, deed: Callable[[ActorId, ExitReason], object]) -> None:
        self._deed = deed

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
        self._deed(id, reason)


class BreakableClock:
    """A virtual clock that can be made to raise an error."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.error: BaseException | None = None
        self.good_calls = 0

    def now_ns(self) -> int:
        if self.error is not None:
            if self.good_calls == 0:
                raise self.error
            self.good_calls -= 1
        return self.clock.now_ns()

    def break_with(self, error: BaseException, after: int = 0) -> None:
        """Raise `error` in each call, after `after` good ones."""
        self.error = error
        self.good_calls = after


def guarded(factory: HostFactory, escaped: list[dict[str, Any]]) -> HostFactory:
    """Return a factory of event loops that stop when an exception escapes into them, so that a test fails and does not hang.

    An event loop logs such an exception and continues; `run()` would wait forever, on uvloop even past an alarm.
    """

    def make() -> asyncio.AbstractEventLoop:
        host = factory()

        def stop(host: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
            escaped.append(context)
            host.stop()

        host.set_exception_handler(stop)
        return host

    return make


def settle(loop: Loop) -> int:
    """Run ticks until no actor is ready and no timer is due; return how many messages were handled."""
    total = 0
    while True:
        handled = loop.poll_once()
        total += handled
        if handled == 0 and loop.statistics().ready == 0:
            return total


def spin(loop: Loop) -> None:
    """Run ticks, for coroutines that wait a few turns."""
    for _ in range(30):
        loop.poll_once()


def fill(loop: Loop, actor: ActorId, lane: Lane = Lane.DATA, data: object = "filler") -> int:
    """Send until the lane is full; return how many messages it accepted."""
    count = 0
    while loop.try_send(actor, data, lane=lane):
        count += 1
    return count


def check_statistics(loop: Loop) -> None:
    """Assert that the counters balance: each message and each timer has exactly one outcome."""
    stats = loop.statistics()
    assert stats.sent == stats.handled + stats.refused + stats.dead + stats.dropped + stats.waiting
    assert (
        stats.timers_set
        == stats.timers_fired + stats.timers_cancelled + stats.timers_released + stats.timers_pending
    )
    assert stats.spawned == stats.alive + stats.ended_normal + stats.ended_fail + stats.ended_panic
    assert min(stats.waiting, stats.timers_pending, stats.alive, stats.ready) >= 0


def exits(seen: list[Seen]) -> list[ChildExit]:
    return [message.data for message in seen if isinstance(message.data, ChildExit)]


def downs(seen: list[Seen]) -> list[Down]:
    return [message.data for message in seen if isinstance(message.data, Down)]


def numbers_logged(records: list[logging.LogRecord], word: str) -> list[tuple[int, int]]:
    """Return (since the last line, in all) for each warning that contains `word`."""
    lines = [entry.getMessage() for entry in records if entry.levelno == logging.WARNING]
    found = [re.search(r"(\d+)\D+\((\d+) in all\)", line) for line in lines if word in line]
    return [(int(match[1]), int(match[2])) for match in found if match]


class StallListener(logging.Handler):
    """Keeps the reports of the watchdog, and lets others wait for them."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[str] = []
        self.heard = threading.Semaphore(0)

    def emit(self, record: logging.LogRecord) -> None:
        if "blocked the loop" in record.getMessage():
            assert record.levelno == logging.WARNING
            self.reports.append(record.getMessage())
            self.heard.release()


def python(program: str, *, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    """Run a program in another process, in the mode of this one: for code that could end the process."""
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        check=False,
        text=True,
        timeout=timeout,
    )


def in_thread(act: Callable[[], object], name: str = "elsewhere") -> Any:
    """Call a function in a thread of its own; return what it returns or raises."""
    outcome: list[Any] = []

    def body() -> None:
        try:
            outcome.append(act())
        except BaseException as error:  # noqa: BLE001 -- handed to the caller
            outcome.append(error)

    thread = threading.Thread(target=body, name=name)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive(), "it hangs"
    return outcome[0]


async def forever() -> None:
    await asyncio.Event().wait()


async def turns(count: int = 5) -> None:
    """Let the event loop go round."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop go round until something holds; the timeout of the test ends what never comes true."""
    while not condition():  # noqa: ASYNC110 -- any condition, most have no event
        await asyncio.sleep(0)


LOOP_THREAD_CALLS: dict[str, Callable[[Loop, ActorId], object]] = {
    "events": lambda loop, actor: loop.events.counts(),
    "spawn": lambda loop, actor: loop.spawn(idle),
    "send": lambda loop, actor: loop.send(actor, "x"),
    "try_send": lambda loop, actor: loop.try_send(actor, "x"),
    "send_after": lambda loop, actor: loop.send_after(actor, 0.001, "x"),
    "cancel_timer": lambda loop, actor: loop.cancel_timer(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # the thread is checked first
    "stop_actor": lambda loop, actor: loop.stop_actor(actor),
    "fail_actor": lambda loop, actor: loop.fail_actor(actor),
    "kill_actor": lambda loop, actor: loop.kill_actor(actor),
    "status": lambda loop, actor: loop.status(actor),
    "monitor": lambda loop, actor: loop.monitor(actor, actor),
    "demonitor": lambda loop, actor: loop.demonitor(None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # likewise
    "link": lambda loop, actor: loop.link(actor, actor),
    "unlink": lambda loop, actor: loop.unlink(actor, actor),
    "trap_exits": lambda loop, actor: loop.trap_exits(actor),
    "tree": lambda loop, actor: loop.tree(),
    "set_observer": lambda loop, actor: loop.set_observer(None),
    "statistics": lambda loop, actor: loop.statistics(),
    "watch_fd": lambda loop, actor: loop.watch_fd(0, actor, Interest.READ),
    "unwatch_fd": lambda loop, actor: loop.unwatch_fd(0),
    "poll_once": lambda loop, actor: loop.poll_once(),
    "destroy": lambda loop, actor: loop.destroy(),
}
"""All calls that must be made on the loop's thread."""
