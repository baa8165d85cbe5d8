"""Descriptors: events, refusals, and the end of a watch."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bandstand.core import (
    ActorId,
    Context,
    Interest,
    IoEvent,
    Lane,
    Loop,
    LoopConfig,
    MonotonicClock,
    Readiness,
    Verdict,
)
from bandstand.errors import InvalidArgumentError, IoNotWatchedError, IoRegistrationError, NoSuchActorError
from bandstand.testing import VirtualClock, run_async
from tests.core.descriptors import PATIENCE, SUBJECTS, Descriptors, Subject, fill_up, poll_until
from tests.core.support import (
    HostFactory,
    LoopMaker,
    RecordingObserver,
    Seen,
    call_in,
    collect,
    failer,
    fill,
    idle,
    panicker,
    python,
    record,
    run_message,
    settle,
    stopper,
    turns,
    until,
)

pytestmark = pytest.mark.spec("J14")

READ, WRITE = Interest.READ, Interest.WRITE


@pytest.fixture
def descriptors() -> Iterator[Descriptors]:
    with Descriptors() as descriptors:
        yield descriptors


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, descriptors: Descriptors) -> Subject:
    """A descriptor of each kind, not ready yet."""
    return SUBJECTS[request.param](descriptors)


def readiness_for(interest: Interest) -> Readiness:
    return Readiness.READ if interest is READ else Readiness.WRITE


def ride(loop: Loop, factory: HostFactory, body: Callable[[], Any]) -> None:
    """Run a coroutine function inside `async with loop`, on an event loop of the lane."""

    async def main() -> None:
        async with asyncio.timeout(PATIENCE), loop:
            await body()

    run_async(main, loop_factory=factory)


# --- one readiness, one event -------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G34", "G38")
def test_no_events_in_flight(
    make_loop: LoopMaker, loop_factory: HostFactory, descriptors: Descriptors, seen: list[Any]
) -> None:
    loop = make_loop(clock=MonotonicClock())
    read, write = descriptors.pipe()
    gates = [asyncio.Event(), asyncio.Event()]

    async def owner(ctx: Context[Any], data: object) -> None:
        seen.append(data)
        if len(seen) <= len(gates):
            await gates[len(seen) - 1].wait()
        else:
            ctx.loop.unwatch_fd(read)

    async def body() -> None:
        loop.watch_fd(read, loop.spawn(owner), READ)
        os.write(write, b"xx")
        await until(lambda: bool(seen))
        await turns(20)
        for count, gate in enumerate(gates, 1):
            before = loop.statistics()
            await turns(50)
            after = loop.statistics()
            assert (after.ticks, after.wakeups) == (before.ticks, before.wakeups), "nobody woke us for it"
            assert len(seen) == count
            gate.set()
            await until(lambda count=count: len(seen) > count)  # type: ignore[misc]
            await turns(20)
        assert loop.statistics().fds == 0

    ride(loop, loop_factory, body)
    assert len(seen) == 3


@pytest.mark.guarantee("G34", "G8")
def test_events_fit_a_full_mailbox(loop: Loop, diary: RecordingObserver, descriptors: Descriptors) -> None:
    seen: list[Seen] = []
    actor = loop.spawn(record, seen, mailbox_cap=5)
    pipes = [descriptors.pipe() for _ in range(20)]
    for read, write in pipes:
        loop.watch_fd(read, actor, READ)
        os.write(write, b"x")
    for lane in (Lane.DATA, Lane.CONTROL, Lane.MANAGEMENT):
        assert fill(loop, actor, lane) == 1
    diary.full.clear()
    loop.poll_once()
    assert loop.statistics().refused == 3, "the three that filled the lanes, no event"
    # One event a visit: its descriptor is armed again before the next is begun.
    while len(seen) < 23:
        loop.poll_once()
    events = [message.data for message in seen if isinstance(message.data, IoEvent)]
    assert {event.fd for event in events} == {read for read, _ in pipes}
    assert [message.lane for message in seen][:20] == [Lane.SYSTEM] * 20
    assert diary.full == []
    assert diary.stopped == []


# --- on a host ----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G34", "G27")
def test_run_watches_every_kind(make_loop: LoopMaker, subject: Subject, seen: list[Any]) -> None:
    loop = make_loop(clock=MonotonicClock())

    def owner(ctx: Context[Any], data: IoEvent) -> None:
        seen.append(data)
        subject.take()
        if len(seen) == 3:
            ctx.loop.unwatch_fd(data.fd)
        else:
            subject.ready()

    loop.watch_fd(subject.fd, loop.spawn(owner), subject.interest)
    subject.ready()
    loop.run(until_idle=True)
    assert seen == [IoEvent(subject.fd, readiness_for(subject.interest))] * 3
    assert loop.statistics().fds == 0


@pytest.mark.slow
@pytest.mark.guarantee("G28", "G36")
def test_a_stop_while_riding_leaves_no_reader_in_the_event_loop(loop_factory: HostFactory) -> None:
    """In a process of its own: an event loop that polls a number which means something else now may abort."""
    name = "uvloop" if "uvloop" in loop_factory.__module__ else "asyncio"
    done = python(f"""
import asyncio, os, {name}
from bandstand.core import Interest, Loop

async def main():
    read, write = os.pipe()
    host = asyncio.get_running_loop()
    async with Loop() as loop:
        actor = loop.spawn(lambda ctx, data: None)
        loop.watch_fd(read, actor, Interest.READ)
        await asyncio.sleep(0.01)
        loop.request_stop()
        await asyncio.sleep(0.01)
        # Other pipes take the number that the loop's own descriptor had.
        for _ in range(5):
            one, other = os.pipe()
            called = asyncio.Event()
            host.add_reader(one, called.set)
            os.write(other, b"x")
            async with asyncio.timeout(5):
                await called.wait()
            host.remove_reader(one)
    os.write(write, b"x")
    print("read", os.read(read, 1))

with asyncio.Runner(loop_factory={name}.new_event_loop) as runner:
    runner.run(main())
""")
    assert (done.returncode, done.stdout, done.stderr) == (0, "read b'x'\n", "")


@pytest.mark.spec("J9")
@pytest.mark.guarantee("G13")
@pytest.mark.parametrize("hosted", [False, True])
@pytest.mark.parametrize("backwards", [False, True])
def test_order_of_a_tick(
    loop: Loop, clock: VirtualClock, descriptors: Descriptors, backwards: bool, hosted: bool
) -> None:
    read, write = descriptors.pipe()
    order: list[str] = []

    def note(ctx: Context[Any], data: object) -> None:
        order.append(ctx.state)
        assert ctx.loop.statistics().ticks == 1, "all in one"
        if isinstance(data, IoEvent):
            ctx.loop.unwatch_fd(data.fd)

    def prepare(what: str) -> None:
        match what:
            case "thread":
                target = loop.spawn(note, what)
                thread = threading.Thread(target=loop.send_async, args=(target, "x"))
                thread.start()
                thread.join(PATIENCE)
            case "descriptor":
                loop.watch_fd(read, loop.spawn(note, what), READ)
                os.write(write, b"x")
            case _:
                loop.send_after(loop.spawn(note, what), 0.005, "x")

    whats = ["thread", "descriptor", "timer"]
    for what in reversed(whats) if backwards else whats:
        prepare(what)
    clock.advance(0.01)
    if hosted:
        loop.run(until_idle=True)
    else:
        loop.poll_once()
    assert order == ["thread", "descriptor", "timer"]
    assert loop.statistics().ended_panic == 0


# --- refusals -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("again", [READ, WRITE, READ | WRITE])
def test_no_second_watch_of_a_descriptor(loop: Loop, descriptors: Descriptors, again: Interest) -> None:
    one, other = descriptors.sockets()
    seen: list[Any] = []
    owner = loop.spawn(collect, seen, name="first owner")
    loop.watch_fd(one, owner, READ)
    for actor in (owner, loop.spawn(idle)):
        with pytest.raises(IoRegistrationError, match=f"descriptor {one} is being watched already") as caught:
            loop.watch_fd(one, actor, again)
        assert caught.value.code == -9
        assert isinstance(caught.value, OSError)
    assert loop.statistics().fds == 1
    os.write(other, b"x")
    loop.poll_once()
    assert seen == [IoEvent(one, Readiness.READ)], "the first watch is untouched"
    # Both failures have given their slot back: one unwatching is enough for the loop to be idle.
    loop.unwatch_fd(one)
    assert loop.statistics().fds == 0
    loop.run(until_idle=True)


@pytest.mark.guarantee("G35")
@pytest.mark.parametrize("fd", [-1, -(2**40), None, True, "0", 1.0, b"x", 2**31, 2**40, 2**70])
def test_what_is_no_descriptor_is_refused(loop: Loop, fd: Any) -> None:
    is_number = isinstance(fd, int) and fd > 1
    with pytest.raises((InvalidArgumentError, *([IoRegistrationError] if is_number else []))):
        loop.watch_fd(fd, loop.spawn(idle), READ)
    with pytest.raises((InvalidArgumentError, *([IoNotWatchedError] if is_number else []))):
        loop.unwatch_fd(fd)
    assert loop.statistics().fds == 0


@pytest.mark.parametrize("interest", [Interest(0), 0, None, 1, "READ", Readiness.READ])
def test_interest_is_read_write_or_both(loop: Loop, descriptors: Descriptors, interest: Any) -> None:
    read, _ = descriptors.pipe()
    with pytest.raises(InvalidArgumentError, match="interest"):
        loop.watch_fd(read, loop.spawn(idle), interest)
    assert loop.statistics().fds == 0


@pytest.mark.slow
@pytest.mark.guarantee("G35")
def test_a_process_without_free_descriptors_is_told_so() -> None:
    done = python("""
import os, resource
from bandstand.core import Interest, Loop
from bandstand.errors import IoRegistrationError

loop = Loop()
actor = loop.spawn(lambda ctx, data: None)
read, write = os.pipe()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (max(read, write) + 1, hard))
try:
    loop.watch_fd(read, actor, Interest.READ)
except IoRegistrationError:
    print("refused", loop.statistics().fds)
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
loop.watch_fd(read, actor, Interest.READ)
print("watched", loop.statistics().fds)
loop.destroy()
""")
    assert (done.returncode, done.stdout) == (0, "refused 0\nwatched 1\n"), done.stderr


# --- watches end --------------------------------------------------------------------------------------------------------


def by_verdict(verdict: Callable[..., Any]) -> Callable[[Loop, ActorId], None]:
    """End an actor by having its behavior say so."""
    return lambda loop, actor: loop.send(actor, verdict)


def do_it(ctx: Context[Any], data: object) -> Verdict | None:
    """A behavior that takes no notice of events and otherwise does what the message says."""
    return None if isinstance(data, IoEvent) else data(ctx, None)  # type: ignore[operator]


ENDS: dict[str, Callable[[Loop, ActorId], None]] = {
    "stop_actor": lambda loop, actor: loop.stop_actor(actor),
    "fail_actor": lambda loop, actor: loop.fail_actor(actor),
    "STOP": by_verdict(stopper),
    "FAIL": by_verdict(failer),
    "panic": by_verdict(panicker),
}


@pytest.mark.guarantee("G35", "G21")
@pytest.mark.parametrize("end", ENDS)
def test_end_of_the_owner(
    loop: Loop, descriptors: Descriptors, caplog: pytest.LogCaptureFixture, end: str, seen: list[Any]
) -> None:
    pipes = [descriptors.pipe() for _ in range(5)]
    actor = loop.spawn(do_it)
    for read, _ in pipes:
        loop.watch_fd(read, actor, READ)
    kept, write_kept = descriptors.pipe()
    loop.watch_fd(kept, loop.spawn(collect, seen), READ)
    ENDS[end](loop, actor)
    settle(loop)
    assert loop.statistics().fds == 1
    heir_seen: list[Any] = []
    heir = loop.spawn(collect, heir_seen)
    for read, write in pipes:
        os.write(write, b"x")
        settle(loop)
        with pytest.raises(IoNotWatchedError):
            loop.unwatch_fd(read)
        loop.watch_fd(read, heir, READ)
        loop.poll_once()
        assert heir_seen.pop() == IoEvent(read, Readiness.READ)
        assert os.read(read, 9) == b"x", "nobody has closed it, nobody has read it"
    os.write(write_kept, b"x")
    loop.poll_once()
    assert seen == [IoEvent(kept, Readiness.READ)], "another owner's watch stays"


@pytest.mark.guarantee("G35", "G32")
def test_a_cancelled_owner(make_loop: LoopMaker, loop_factory: HostFactory, descriptors: Descriptors) -> None:
    loop = make_loop(clock=MonotonicClock())
    read, write = descriptors.pipe()
    begun = asyncio.Event()

    async def owner(ctx: Context[Any], data: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    async def body() -> None:
        actor = loop.spawn(owner)
        loop.watch_fd(read, actor, READ)
        os.write(write, b"x")
        await begun.wait()
        loop.stop_actor(actor)
        with pytest.raises(NoSuchActorError):
            loop.watch_fd(write, actor, WRITE)
        await until(lambda: loop.statistics().alive == 0)
        assert loop.statistics().fds == 0
        assert loop.statistics().in_flight == 0
        seen: list[Any] = []
        loop.watch_fd(read, loop.spawn(collect, seen), READ)
        await until(lambda: bool(seen))

    ride(loop, loop_factory, body)


@pytest.mark.guarantee("G35")
def test_a_destroyed_loop_has_no_descriptor(loop_factory: HostFactory, descriptors: Descriptors) -> None:
    read, write = descriptors.pipe()
    loop_factory().close()  # some open something once for the whole process
    before = set(os.listdir("/proc/self/fd"))
    for hosted in (False, True):
        loop = Loop(LoopConfig(loop_factory=loop_factory))
        loop.watch_fd(read, loop.spawn(stopper), READ)
        os.write(write, b"x")
        if hosted:
            loop.run(until_idle=True)
        loop.destroy()
    assert set(os.listdir("/proc/self/fd")) == before


@pytest.mark.guarantee("G34")
@pytest.mark.parametrize("kind", ["pipe", "sockets", "master"])
def test_the_end_of_the_other_side_is_readable(loop: Loop, descriptors: Descriptors, kind: str) -> None:
    fd, peer = {"pipe": descriptors.pipe, "sockets": descriptors.sockets, "master": descriptors.terminal}[
        kind
    ]()
    said: list[Any] = []

    def owner(ctx: Context[Any], data: IoEvent) -> None:
        assert Readiness.READ in data.readiness
        try:
            part = os.read(data.fd, 100)
        except OSError:
            part = b""  # a terminal's way to say it
        said.append(part)
        if not part:
            ctx.loop.unwatch_fd(data.fd)

    loop.watch_fd(fd, loop.spawn(owner), READ)
    os.write(peer, b"last words")
    poll_until(loop, lambda: bool(said))
    descriptors.close(peer)
    poll_until(loop, lambda: said[-1] == b"")
    settle(loop)
    assert said == [b"last words", b""]


@pytest.mark.guarantee("G34")
@pytest.mark.parametrize("full", [False, True])
def test_a_pipe_without_a_reader_is_writable(loop: Loop, descriptors: Descriptors, full: bool) -> None:
    """ERROR alone would say that it was closed behind the runtime's back, which it was not."""
    read, write = descriptors.pipe()
    seen: list[Any] = []
    if full:
        fill_up(write)
    descriptors.close(read)
    loop.watch_fd(write, loop.spawn(collect, seen), WRITE)
    loop.poll_once()
    assert seen == [IoEvent(write, Readiness.WRITE | Readiness.ERROR)]
    assert loop.statistics().fds == 1
    with pytest.raises(BrokenPipeError):
        os.write(write, b"x")


# --- closed behind our back (in this process; what could take it down is in test_fds_closed.py) ---------------------------


@pytest.mark.guarantee("G36")
def test_a_sweep_finds_a_closed_fd(
    make_loop: LoopMaker, clock: VirtualClock, descriptors: Descriptors, seen: list[Any]
) -> None:
    loop = make_loop(fd_sweep_period=0.25)
    read, _ = descriptors.pipe()
    actor = loop.spawn(collect, seen)
    loop.watch_fd(read, actor, READ)
    settle(loop)
    descriptors.close(read)
    clock.advance(0.249)
    settle(loop)
    assert seen == [], "nobody has looked yet"
    clock.advance(0.001)
    settle(loop)
    assert seen == [IoEvent(read, Readiness.ERROR)]
    assert loop.statistics().fds == 0
    for _ in range(5):
        clock.advance(0.25)
        settle(loop)
    assert len(seen) == 1, "once"
    # As the specification asks: the owner may unwatch it now, once.
    loop.unwatch_fd(read)
    with pytest.raises(IoNotWatchedError):
        loop.unwatch_fd(read)


@pytest.mark.guarantee("G36")
def test_unwatch_drops_the_error(make_loop: LoopMaker, clock: VirtualClock, descriptors: Descriptors) -> None:
    loop = make_loop(max_actors_per_tick=1)
    read, _ = descriptors.pipe()
    seen: list[Any] = []
    loop.watch_fd(read, loop.spawn(collect, seen), READ)
    descriptors.close(read)
    call_in(loop, loop.spawn(run_message), idle_deed)
    clock.advance(1.0)
    loop.poll_once()
    assert (loop.statistics().waiting, loop.statistics().fds) == (1, 0)
    loop.unwatch_fd(read)
    settle(loop)
    assert seen == []
    assert loop.statistics().dropped == 1


def idle_deed(ctx: Context[Any]) -> None:
    """Do nothing."""


@pytest.mark.guarantee("G36")
@pytest.mark.slow
def test_a_sweep_checks_256(make_loop: LoopMaker, clock: VirtualClock, descriptors: Descriptors) -> None:
    loop = make_loop()
    seen: list[IoEvent] = []
    fds = [descriptors.eventfd() for _ in range(600)]
    actor = loop.spawn(collect, seen)
    for fd in fds:
        loop.watch_fd(fd, actor, READ)
    settle(loop)
    descriptors.close(*fds)
    found: list[int] = []
    for _ in range(4):
        clock.advance(1.0)
        settle(loop)
        found.append(len(seen))
    assert found == [256, 512, 600, 600]
    assert sorted(event.fd for event in seen) == fds
    assert {event.readiness for event in seen} == {Readiness.ERROR}


@pytest.mark.guarantee("G36", "G34")
@pytest.mark.parametrize("found", ["when it is taken", "by the sweep", "by another watch"])
def test_an_event_of_a_reused_fd(
    loop: Loop, clock: VirtualClock, descriptors: Descriptors, found: str, seen: list[Any]
) -> None:
    """The owner would read another's data: the event was true when it was made, and is not when it is handled."""
    read, write = descriptors.pipe()
    new: list[Any] = []

    def swap(ctx: Context[Any]) -> None:
        descriptors.close(read)
        one, other = descriptors.pipe()
        assert one == read
        os.write(other, b"not for you")
        if found == "by another watch":
            ctx.loop.watch_fd(read, ctx.loop.spawn(collect, new), READ)
        elif found == "by the sweep":
            # The next tick begins with it, for this one ends here.
            clock.advance(1.0)

    call_in(loop, loop.spawn(run_message), swap)
    loop.watch_fd(read, loop.spawn(collect, seen), READ)
    os.write(write, b"x")
    for _ in range(5):
        loop.poll_once()
    assert seen == [IoEvent(read, Readiness.ERROR)]
    assert set(new) == ({IoEvent(read, Readiness.READ)} if found == "by another watch" else set())


@pytest.mark.guarantee("G36", "G34")
@pytest.mark.parametrize("end", ["swept", "watched anew", "unwatched", "owner ended"])
def test_a_duplicate_of_a_reused_fd(
    loop: Loop, clock: VirtualClock, descriptors: Descriptors, end: str
) -> None:
    """However the old watch ends: the kernel goes on reporting the old file under its number."""
    read, write = descriptors.pipe()
    old: list[Any] = []
    new: list[Any] = []
    owner = loop.spawn(collect, old)
    loop.watch_fd(read, owner, READ)
    settle(loop)
    descriptors.keep(os.dup(read))
    descriptors.close(read)
    reused, other = descriptors.pipe()
    assert reused == read
    if end == "swept":
        clock.advance(1.0)
        settle(loop)
    elif end == "unwatched":
        loop.unwatch_fd(read)
    elif end == "owner ended":
        loop.stop_actor(owner)
    loop.watch_fd(reused, loop.spawn(collect, new), READ)
    settle(loop)
    assert old == ([IoEvent(read, Readiness.ERROR)] if end in {"swept", "watched anew"} else [])
    old.clear()
    os.write(write, b"into the old pipe")
    for _ in range(3):
        loop.poll_once()
    assert (old, new) == ([], []), "the new owner's pipe is empty"
    os.write(other, b"into the new one")
    loop.poll_once()
    assert new == [IoEvent(reused, Readiness.READ)]


@pytest.mark.guarantee("G36")
def test_two_closed_descriptors_are_found(loop: Loop, clock: VirtualClock, descriptors: Descriptors) -> None:
    """An eventfd, whose successor has the same inode; and a pipe, closed by its owner, that is found at once."""
    first = descriptors.eventfd()
    read, write = descriptors.pipe()
    seen: list[Any] = []
    others: list[Any] = []

    def owner(ctx: Context[Any], data: IoEvent) -> None:
        others.append(data.readiness)
        if Readiness.READ in data.readiness:
            descriptors.close(data.fd)

    loop.watch_fd(first, loop.spawn(collect, seen), READ)
    loop.watch_fd(read, loop.spawn(owner), READ)
    settle(loop)
    descriptors.close(first)
    assert descriptors.eventfd(1) == first
    os.write(write, b"x")
    settle(loop)
    assert others == [Readiness.READ, Readiness.ERROR]
    clock.advance(1.0)
    settle(loop)
    assert seen == [IoEvent(first, Readiness.ERROR)], "never the new one's readiness"


@pytest.mark.guarantee("G36")
@pytest.mark.parametrize("kind", ["fifo", "master", "slave"])
def test_a_reopened_file(
    loop: Loop, clock: VirtualClock, descriptors: Descriptors, tmp_path: Any, kind: str, seen: list[Any]
) -> None:
    """A FIFO that is opened again has the same inode; so have two terminals, one after the other."""
    path = tmp_path / "fifo"
    os.mkfifo(path)

    def open_one() -> tuple[int, int]:
        """What is to be watched, and what to write to."""
        if kind == "fifo":
            fd = os.open(path, os.O_RDWR | os.O_NONBLOCK)
            descriptors.keep(fd)
            return fd, fd
        pair = descriptors.terminal()
        return pair if kind == "master" else (pair[1], pair[0])

    fds = open_one()
    loop.watch_fd(fds[0], loop.spawn(collect, seen), READ)
    settle(loop)
    descriptors.close(*set(fds))
    assert open_one() == fds
    os.write(fds[1], b"for another")
    for _ in range(3):
        clock.advance(1.0)
        settle(loop)
    assert seen == [IoEvent(fds[0], Readiness.ERROR)]


@pytest.mark.guarantee("G27")
@pytest.mark.parametrize("last", ["descriptor", "owner", "timer"])
def test_until_idle_returns_after_a_callback(
    make_loop: LoopMaker, descriptors: Descriptors, last: str
) -> None:
    loop = make_loop(clock=MonotonicClock(), fd_sweep_period=3600.0)
    read, _ = descriptors.pipe()
    host: list[asyncio.AbstractEventLoop] = []
    owner = loop.spawn(idle)
    if last == "timer":
        timer = loop.send_after(owner, 3600.0, "an hour from now")
        end: Callable[[], None] = lambda: loop.cancel_timer(timer)  # noqa: E731 -- one of three
    else:
        loop.watch_fd(read, owner, READ)
        end = lambda: loop.unwatch_fd(read) if last == "descriptor" else loop.stop_actor(owner)  # noqa: E731

    def later(ctx: Context[Any]) -> None:
        host.append(asyncio.get_running_loop())
        host[0].call_later(0.01, end)
        # The test's own way out, so that a failure does not hang.
        host[0].call_later(5, loop.request_stop)

    call_in(loop, loop.spawn(run_message), later)
    loop.run(until_idle=True)
    assert loop.statistics().alive > 0, "it had to be stopped"
