"""Other threads: `send_async` and `request_stop` under load; everything else is refused."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.core import (
    STOP,
    ActorId,
    ActorStatus,
    Context,
    Interest,
    Lane,
    Loop,
    MonotonicClock,
    Overflow,
    Statistics,
    Verdict,
)
from bandstand.errors import (
    BandstandError,
    LoopBusyError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    WrongThreadError,
)
from bandstand.testing import run_async
from tests.core.support import (
    LOOP_THREAD_CALLS,
    PATIENCE,
    HostFactory,
    LoopMaker,
    check_statistics,
    collect,
    idle,
    in_thread,
    python,
    settle,
)

pytestmark = pytest.mark.spec("J15")

CAP = 7  # three user messages a lane
COMPILED = _build_mode.mode() == "compiled"

interpreted_only = pytest.mark.skipif(
    COMPILED, reason="looks between two bytecodes; compiled there are none there"
)


@pytest.fixture
def quick_switches() -> Iterator[None]:
    """Have threads change over as often as the interpreter can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@contextmanager
def running(loop: Loop) -> Generator[threading.Thread]:
    """Run a loop in a thread of its own, and stop it at the end of the block."""
    begun = threading.Event()

    def announce(ctx: Context[Any], data: object) -> Verdict:
        begun.set()
        return STOP

    loop.send(loop.spawn(announce), "x")
    thread = threading.Thread(target=loop.run, name="runner")
    thread.start()
    try:
        assert begun.wait(PATIENCE)
        yield thread
    finally:
        loop.request_stop()
        thread.join(PATIENCE)
        assert not thread.is_alive(), "request_stop did not wake it"


def books_of(loop: Loop) -> Statistics:
    """The books of a loop that has ended, whoever ran it."""
    loop.destroy()
    check_statistics(loop)
    return loop.statistics()


class Hammer:
    """Threads that send numbered messages as fast as they can, and note what became of each."""

    def __init__(self, loop: Loop, count: int, messages: int, *, persistent: bool = False) -> None:
        self.loop = loop
        self.tries = 1_000_000 if persistent else 1
        self.messages = messages

        self.accepted: list[list[int]] = [[] for _ in range(count)]
        self.errors: list[Counter[type[BandstandError]]] = [Counter() for _ in range(count)]
        self.targets: list[ActorId] = []
        self.start = threading.Barrier(count)
        self.threads = [threading.Thread(target=self._send, args=(who,)) for who in range(count)]

    def _send(self, who: int) -> None:
        accepted, errors = self.accepted[who], self.errors[who]
        self.start.wait(PATIENCE)
        for number in range(self.messages):
            target = self.targets[number % len(self.targets)]

            for _ in range(self.tries):
                try:
                    self.loop.send_async(target, (who, number))
                except (MailboxFullError, NoSuchActorError, LoopClosedError) as error:
                    errors[type(error)] += 1
                else:
                    accepted.append(number)
                    break

    def go(self) -> None:
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a sender hangs"

    @property
    def all_accepted(self) -> int:
        return sum(map(len, self.accepted))

    @property
    def all_refused(self) -> int:
        return sum(sum(errors.values()) for errors in self.errors)


def in_order(seen: list[Any], who: int) -> list[int]:
    return [message[1] for message in seen if message[0] == who]


# --- the verdict falls in the calling thread ------------------------------------------------------------------------------


@pytest.mark.guarantee("G37", "G10")
def test_send_async_raises_in_the_calling_thread(loop: Loop) -> None:
    actor, dead = loop.spawn(idle, mailbox_cap=CAP), loop.spawn(idle)
    loop.stop_actor(dead)
    for number in range(3):
        assert in_thread(lambda number=number: loop.send_async(actor, number)) is None  # type: ignore[misc]
    assert type(in_thread(lambda: loop.send_async(actor, "one more"))) is MailboxFullError
    assert type(in_thread(lambda: loop.send_async(dead, "x"))) is NoSuchActorError
    settle(loop)
    books = loop.statistics()
    assert (books.sent, books.handled, books.refused) == (5, 3, 2)
    loop.request_stop()
    assert type(in_thread(lambda: loop.send_async(actor, "x"))) is LoopClosedError
    loop.destroy()
    assert type(in_thread(lambda: loop.send_async(actor, "x"))) is LoopClosedError
    assert loop.statistics().refused == 4


# --- real threads ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G37", "G10", "G5")
@pytest.mark.slow
@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("drive", ["run", "run in a thread", "ride"])
def test_messages_of_threads_are_not_lost(
    make_loop: LoopMaker, loop_factory: HostFactory, quick_switches: None, drive: str, persistent: bool
) -> None:
    """Persistent senders try again until they are let in; the others give a refused message up."""
    loop = make_loop(clock=MonotonicClock())
    hammer = Hammer(loop, count=6, messages=2000, persistent=persistent)
    seen: list[Any] = []
    over = threading.Event()

    def sink(ctx: Context[Any], data: Any) -> None:
        if data == "over":
            over.set()
            ctx.loop.request_stop()
        else:
            seen.append(data)

    hammer.targets = [loop.spawn(sink, mailbox_cap=50)]

    def conduct() -> None:
        hammer.go()
        hammer.join()
        # After the last of theirs, in the same lane: so it is handled after them.
        while True:
            with suppress(MailboxFullError):
                return loop.send_async(hammer.targets[0], "over")

    conductor = threading.Thread(target=conduct)
    conductor.start()
    if drive == "run":
        loop.run()
    elif drive == "ride":

        async def main() -> None:
            async with asyncio.timeout(PATIENCE), loop:
                await asyncio.to_thread(over.wait, PATIENCE)

        run_async(main, loop_factory=loop_factory)
    else:
        thread = threading.Thread(target=loop.run)
        thread.start()
        thread.join(PATIENCE)
    conductor.join(PATIENCE)
    assert over.is_set()
    for who, accepted in enumerate(hammer.accepted):
        assert in_order(seen, who) == accepted
        assert len(accepted) == 2000 or not persistent
    assert len(seen) == hammer.all_accepted
    books = books_of(loop)
    assert books.handled == hammer.all_accepted + 1
    # The conductor's own refusals are not in the hammer's list.
    assert books.refused >= hammer.all_refused
    assert books.sent == books.handled + books.refused
    assert all(set(errors) <= {MailboxFullError} for errors in hammer.errors)


@pytest.mark.guarantee("G37", "G7")
@pytest.mark.slow
@pytest.mark.parametrize("local", [False, True])
def test_the_cap_holds_whoever_sends(loop: Loop, quick_switches: None, local: bool) -> None:
    """Compiled to the message. Interpreted, by one more for each thread that sends beside the loop itself."""
    threads = 8
    limit = 100
    for _ in range(20):
        actor = loop.spawn(idle, mailbox_cap=limit + 4)
        hammer = Hammer(loop, count=threads, messages=50)
        hammer.targets = [actor]
        taken = 0
        hammer.go()
        if local:
            while any(thread.is_alive() for thread in hammer.threads):
                taken += loop.try_send(actor, "local")
        hammer.join()
        total = hammer.all_accepted + taken
        if COMPILED or not local:
            assert total == limit
        else:
            assert limit <= total <= limit + threads
        settle(loop)
        assert loop.statistics().waiting == 0
        loop.stop_actor(actor)


@pytest.mark.guarantee("G37", "G26", "G24")
@pytest.mark.slow
@pytest.mark.parametrize("drive", ["run", "ride", "by hand"])
def test_sends_during_the_end_of_the_loop(
    make_loop: LoopMaker, loop_factory: HostFactory, quick_switches: None, drive: str
) -> None:
    for turn in range(15):
        loop = make_loop(clock=MonotonicClock())
        count = 0
        told: list[str] = []

        def sink(ctx: Context[Any], data: object, after: int = 1 + turn * 40) -> None:
            nonlocal count
            count += 1
            if count == after:
                ctx.loop.request_stop()

        class Observer:
            def on_dead_letter(self, *letter: object, told: list[str] = told) -> None:
                told.append(threading.current_thread().name)

        loop.set_observer(Observer())
        hammer = Hammer(loop, count=4, messages=300)
        hammer.targets = [loop.spawn(sink)]
        hammer.go()
        if drive == "run":
            loop.run()
        elif drive == "by hand":
            with suppress(LoopClosedError):
                while True:
                    loop.poll_once()
            loop.destroy()
        else:

            async def main(loop: Loop = loop) -> None:
                async with loop:
                    while loop.statistics().alive:  # noqa: ASYNC110 -- turns of the host are what is wanted
                        await asyncio.sleep(0)

            run_async(main, loop_factory=loop_factory)
        hammer.join()
        books = books_of(loop)
        assert books.handled == count
        assert books.handled + books.dead == hammer.all_accepted, "each was handled or is a dead letter"
        assert books.refused == hammer.all_refused
        assert books.sent == 4 * 300
        assert set(told) <= {threading.current_thread().name}, "hooks run on the loop's thread"
        assert len(told) <= books.dead


class Gate:
    """A loop's lock that makes a stranger wait: it stands for the interpreter changing threads at that very place."""

    def __init__(self, loop: Any) -> None:
        self.lock = loop.kernel.inbox._lock
        loop.kernel.inbox._lock = self
        self.inside = threading.Event()
        self.go_on = threading.Event()

    def __enter__(self) -> None:
        if threading.current_thread().name == "stranger":
            self.inside.set()
            assert self.go_on.wait(PATIENCE)
        self.lock.acquire()

    def __exit__(self, *_: object) -> None:
        self.lock.release()


@interpreted_only
@pytest.mark.guarantee("G24", "G37")
def test_no_hook_runs_on_the_thread_of_a_late_sender(loop: Loop) -> None:
    actor = loop.spawn(idle)
    told: list[tuple[object, str]] = []
    thread = threading.Thread(target=lambda: loop.send_async(actor, "late"), name="stranger")

    class Observer:
        def on_dead_letter(
            self, target: ActorId, lane: Lane, data: object, tag: int, sender: ActorId | int
        ) -> None:
            told.append((data, threading.current_thread().name))
            # The loop is at its end and looks into its inbox for the last time: let the stranger go on just now.
            gate.go_on.set()
            thread.join(PATIENCE)

    loop.set_observer(Observer())
    loop.send_async(actor, "early")
    gate = Gate(loop)
    thread.start()
    assert gate.inside.wait(PATIENCE)
    loop.destroy()
    thread.join(PATIENCE)
    assert {name for _, name in told} == {threading.current_thread().name}
    books = loop.statistics()
    assert (books.sent, books.dead, books.waiting) == (2, 2, 0)


OUTCOMES = {
    Overflow.DROP_NEWEST: ([0, 1, 2], [3, 4, 5]),
    Overflow.DROP_OLDEST: ([3, 4, 5], [0, 1, 2]),
    Overflow.CONFLATE: ([0, 1, 5], [2, 3, 4]),
}


@pytest.mark.guarantee("G9", "G37")
@pytest.mark.parametrize("policy", OUTCOMES)
def test_a_flood_to_a_full_mailbox_fills_no_memory(loop: Loop, policy: Overflow, seen: list[Any]) -> None:
    """The first, the last, or both ends of ten thousand: whatever was given up on the way."""

    class Weight:
        living = 0

        def __init__(self, number: int) -> None:
            Weight.living += 1
            self.number = number

        def __del__(self) -> None:
            Weight.living -= 1

    def behavior(ctx: Context[Any], data: Weight) -> None:
        seen.append(data.number)

    actor = loop.spawn(behavior, mailbox_cap=CAP, overflow=policy)
    most = 0
    for number in range(10_000):
        loop.send_async(actor, Weight(number))
        most = max(most, Weight.living)
    assert most <= 4 * CAP
    settle(loop)
    assert (
        seen
        == {
            Overflow.DROP_NEWEST: [0, 1, 2],
            Overflow.DROP_OLDEST: [9997, 9998, 9999],
            Overflow.CONFLATE: [0, 1, 9999],
        }[policy]
    )
    books = loop.statistics()
    assert (books.sent, books.handled, books.dropped, books.refused) == (10_000, 3, 9_997, 0)


# --- one wake a burst -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G38")
@pytest.mark.parametrize("threads", [1, 4])
def test_a_burst_wakes_the_loop_once(make_loop: LoopMaker, loop_factory: HostFactory, threads: int) -> None:
    """The burst comes while the event loop is held up, so the loop cannot have woken in between."""
    loop = make_loop(clock=MonotonicClock(), max_msgs_per_actor=10_000, max_tick=10.0)
    seen: list[Any] = []

    async def main() -> None:
        async with loop:
            actor = loop.spawn(collect, seen, mailbox_cap=100_000)
            for burst in (1, 2, 3):
                for _ in range(10):
                    await asyncio.sleep(0)
                before = loop.statistics()
                hammer = Hammer(loop, count=threads, messages=1000)
                hammer.targets = [actor]
                hammer.go()
                hammer.join()
                assert loop.statistics().wakeups == before.wakeups, "this thread is busy"
                # The wake comes through a descriptor, so the event loop must have been asleep for an instant.
                end = monotonic() + PATIENCE
                while len(seen) < burst * threads * 1000:
                    assert monotonic() < end, "it never woke"
                    await asyncio.sleep(0)
                for _ in range(10):
                    await asyncio.sleep(0)
                after = loop.statistics()
                assert (after.wakeups - before.wakeups, after.ticks - before.ticks) == (1, 1)

    run_async(main, loop_factory=loop_factory)
    assert len(seen) == 3 * threads * 1000


@pytest.mark.guarantee("G37", "G38")
@pytest.mark.slow
def test_each_message_wakes_a_loop_that_has_gone_to_sleep(make_loop: LoopMaker, quick_switches: None) -> None:
    """Ping-pong: the next message is sent when the last was handled, just when the loop goes to sleep."""
    loop = make_loop(clock=MonotonicClock())
    answers = [threading.Semaphore(0) for _ in range(3)]

    def answer(ctx: Context[Any], who: int) -> None:
        answers[who].release()

    actor = loop.spawn(answer)
    failed: list[int] = []

    def play(who: int) -> None:
        for number in range(1500):
            loop.send_async(actor, who)
            if not answers[who].acquire(timeout=10):
                failed.append(number)
                return

    with running(loop):
        threads = [threading.Thread(target=play, args=(who,)) for who in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(2 * PATIENCE)
    assert failed == [], "a message was accepted and nobody was woken for it"


@interpreted_only
@pytest.mark.guarantee("G37", "G38")
def test_a_tick_before_the_wake_loses_no_wake(loop: Loop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stranger has put its message in and is about to wake the loop, which has just let the message in already."""
    seen: list[Any] = []
    actor = loop.spawn(collect, seen)
    wakes: list[str] = []
    runner = loop.runner

    class Waking:
        """A runner that only counts how often the loop is woken."""

        def wake_threadsafe(self) -> None:
            wakes.append("wake")

        def __getattr__(self, name: str) -> Any:
            return getattr(runner, name)

    monkeypatch.setattr(loop.kernel, "runner", Waking())

    class Lagging(Gate):
        def __enter__(self) -> None:
            self.lock.acquire()

        def __exit__(self, *_: object) -> None:
            self.lock.release()
            if threading.current_thread().name == "stranger" and not self.inside.is_set():
                self.inside.set()
                assert self.go_on.wait(PATIENCE)

    gate = Lagging(loop)
    thread = threading.Thread(target=lambda: loop.send_async(actor, 1), name="stranger")
    thread.start()
    assert gate.inside.wait(PATIENCE)
    loop.poll_once()
    gate.go_on.set()
    thread.join(PATIENCE)
    loop.poll_once()
    assert seen == [1]
    before = len(wakes)
    loop.send_async(actor, 2)
    assert len(wakes) == before + 1, "the loop sleeps, and nobody wakes it for the second message"


@pytest.mark.slow
@pytest.mark.guarantee("G37")
def test_a_signal_handler_may_send_while_its_thread_is_sending() -> None:
    done = python(
        """
import signal
from bandstand.core import Loop

loop = Loop()
seen = []
actor = loop.spawn(lambda ctx, data: seen.append(data), mailbox_cap=2**20)
heard = 0

def handler(*_):
    global heard
    heard += 1
    loop.send_async(actor, "signal")
    if heard < 100:
        signal.setitimer(signal.ITIMER_REAL, 0.001)

signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001)
sent = 0
while heard < 100:
    loop.send_async(actor, "plain")
    sent += 1
loop.run(until_idle=True)
print(seen.count("signal") == 100, seen.count("plain") == sent)
loop.destroy()
""",
        timeout=20,
    )
    assert (done.returncode, done.stdout) == (0, "True True\n"), done.stderr


@pytest.mark.guarantee("G37", "G12")
def test_a_flood_of_send_async_does_not_hold_the_tick(loop: Loop) -> None:
    """An actor that feeds itself through the inbox gets one round a tick: others have their turn."""
    rounds = 0

    def feed(ctx: Context[Any], data: object) -> None:
        nonlocal rounds
        rounds += 1
        ctx.loop.send_async(ctx.self_id, data)

    loop.send_async(loop.spawn(feed), "x")
    for expected in range(1, 6):
        loop.poll_once()
        assert rounds == expected


# --- the other calls ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G29")
def test_calls_on_another_thread_raise_while_the_loop_runs(make_loop: LoopMaker) -> None:
    loop = make_loop(clock=MonotonicClock())
    # Interpreted, `kernel` is an attribute of each loop and not of the class.
    assert {"kernel", *(name for name in dir(Loop) if not name.startswith("_"))} == {
        *LOOP_THREAD_CALLS,
        *("run", "send_async", "request_stop", "config", "kernel", "runner"),
    }
    books: list[Statistics] = []
    noted = threading.Event()

    def note(ctx: Context[Any], data: object) -> None:
        books.append(ctx.loop.statistics())
        noted.set()

    actor = loop.spawn(note)
    me = threading.current_thread().name
    with running(loop):
        for name, call in LOOP_THREAD_CALLS.items():
            with pytest.raises(WrongThreadError) as caught:
                call(loop, actor)
            assert "'runner'" in str(caught.value), name
            assert repr(me) in str(caught.value), name
            assert caught.value.code == -100
        with pytest.raises(LoopBusyError):
            loop.run()
        loop.send_async(actor, "x")
        assert noted.wait(PATIENCE)
    assert (books[0].sent, books[0].alive, books[0].timers_set, books[0].fds) == (2, 1, 0, 0), (
        "none of it happened"
    )


@pytest.mark.guarantee("G29", "G26")
def test_request_stop_wakes_a_sleeping_loop_promptly(make_loop: LoopMaker) -> None:
    """With nothing to do, with a timer an hour away, and with a descriptor that nobody writes to."""
    import os

    read, write = os.pipe()
    try:
        for what in ("nothing", "timer", "descriptor"):
            loop = make_loop(clock=MonotonicClock(), fd_sweep_period=3600.0)
            actor = loop.spawn(idle)
            if what == "timer":
                loop.send_after(actor, 3600.0, "x")
            elif what == "descriptor":
                loop.watch_fd(read, actor, Interest.READ)
            with running(loop) as thread:
                began = monotonic()
                loop.request_stop()
                thread.join(PATIENCE)
                assert not thread.is_alive()
                assert monotonic() - began < 5
            assert books_of(loop).alive == 0
    finally:
        os.close(read)
        os.close(write)


def test_an_actor_can_be_killed_after_an_interrupt_before_its_first_message(loop: Loop) -> None:
    """The visit of the actor has begun, and another thread interrupts it before it takes a message."""
    seen: list[object] = []
    actor = loop.spawn(lambda _ctx, data: seen.append(data))
    other = loop.spawn(idle)
    loop.send(actor, "never handled")

    def interrupt(_count: int) -> int:
        thread = threading.Thread(
            target=loop.send_async, args=(other, "urgent"), kwargs={"lane": Lane.CONTROL}
        )
        thread.start()
        thread.join()
        loop.kernel.pick_next = kill
        return 0

    def kill(_count: int) -> int:
        loop.kernel.pick_next = None
        loop.kill_actor(actor)
        return 0

    loop.kernel.pick_next = interrupt
    settle(loop)
    assert loop.status(actor) is ActorStatus.FAILED
    assert seen == []
