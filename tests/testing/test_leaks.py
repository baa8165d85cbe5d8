"""Leaks: every kind of leak is found, and nothing else is reported."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from bandstand.core import Context, Interest, Loop, LoopConfig
from bandstand.testing import Leaks, Probe, VirtualClock, leaks_of, pending_tasks

HostFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


# --- the process ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_thread_is_reported_with_its_name() -> None:
    before, release = Leaks.now(), threading.Event()
    thread = threading.Thread(target=release.wait, args=(30,), name="the organ grinder")
    thread.start()
    assert before.since(patience=0) == ["thread 'the organ grinder' still runs"]
    release.set()
    thread.join(30)
    assert before.since(patience=0) == []


@pytest.mark.slow
def test_a_thread_that_is_ending_is_waited_for() -> None:
    before = Leaks.now()
    threading.Thread(target=threading.Event().wait, args=(0.05,)).start()
    assert before.since(patience=30) == []


@pytest.mark.slow
def test_a_descriptor_is_reported_with_its_kind() -> None:
    before = Leaks.now()
    read, write = os.pipe()
    found = before.since(patience=0)
    os.close(read)
    os.close(write)
    assert [words.split(" (pipe:")[0] for words in found] == [
        f"descriptor {read} is still open",
        f"descriptor {write} is still open",
    ]
    assert before.since(patience=0) == []


@pytest.mark.slow
def test_garbage_is_not_a_leak() -> None:
    class Holder:
        def __init__(self) -> None:
            self.fd = os.open(os.devnull, os.O_RDONLY)
            self.myself = self

        def __del__(self) -> None:
            os.close(self.fd)

    before = Leaks.now()
    Holder()
    assert before.since(patience=0) == []


def test_worker_threads_of_an_open_event_loop_are_not_a_leak() -> None:
    async def main() -> list[str]:
        before = Leaks.now()
        await asyncio.to_thread(lambda: None)
        return before.since(patience=0)

    assert asyncio.run(main()) == []


@pytest.mark.slow
def test_what_was_opened_between_two_snapshots_can_be_allowed(pipe: tuple[int, int]) -> None:
    first = Leaks.now()
    before = Leaks.now()
    third = os.dup(pipe[0])
    after = Leaks.now()
    fourth = os.dup(pipe[0])
    found = first.allowing(before, after).since(patience=0)
    os.close(third)
    os.close(fourth)
    assert len(found) == 1
    assert found[0].startswith(f"descriptor {fourth} ")


def test_everything_that_a_loop_holds_is_reported(pipe: tuple[int, int]) -> None:
    clock = VirtualClock()

    async def wait(ctx: Context[Any], data: object) -> None:
        await asyncio.Event().wait()

    loop = Loop(LoopConfig(loop_factory=clock.new_event_loop), clock=clock)
    assert leaks_of(loop) == []
    waiter, idler = loop.spawn(wait), Probe().spawn(loop)
    loop.send_after(idler, 1.0, "later")
    loop.watch_fd(pipe[0], idler, Interest.READ)
    loop.send(waiter, None)
    loop.poll_once()
    loop.send(waiter, "waits")
    held = leaks_of(loop)
    loop.destroy()
    assert leaks_of(loop) == []
    assert [words.split(" ", 1)[1] for words in held] == [
        "actors are alive",
        "timers are pending",
        "async behaviors are in flight",
        "descriptors are watched",
        "messages are waiting",
    ]
    assert [held[0], *held[2:]] == [
        "2 actors are alive",
        "1 async behaviors are in flight",
        "1 descriptors are watched",
        "1 messages are waiting",
    ]


def test_the_tasks_of_a_loop_can_be_excluded(bandstand_clock: VirtualClock) -> None:
    async def nap(ctx: Context[Any], data: object) -> None:
        await asyncio.sleep(1)

    host = bandstand_clock.new_event_loop()
    with Loop(LoopConfig(loop_factory=lambda: host), clock=bandstand_clock) as loop:
        loop.send(loop.spawn(nap), None)
        loop.run(until_idle=True)
        assert pending_tasks(host) == ["task 'bandstand driver' has not ended"]
        assert pending_tasks(host, drivers=False) == []
    assert pending_tasks(host) == []


# --- what destroying a loop leaves: nothing ---------------------------------------------------------------------------


def leaks_after_destroy(factory: HostFactory, *, strays: bool) -> list[str]:
    """Destroy a loop that holds everything it can hold, and return what is left."""
    hosts: list[asyncio.AbstractEventLoop] = []
    kept: list[object] = []
    before = Leaks.now()
    read, write = os.pipe()

    def new_host() -> asyncio.AbstractEventLoop:
        hosts.append(factory())
        return hosts[-1]

    async def works(ctx: Context[Any], data: str) -> None:
        await asyncio.to_thread(lambda: None)
        if strays:
            kept.append(asyncio.create_task(asyncio.Event().wait(), name="stray"))
        if data == "hang":
            async with asyncio.TaskGroup() as group:
                group.create_task(asyncio.Event().wait())
        if data == "stop":
            ctx.loop.request_stop()

    loop = Loop(LoopConfig(loop_factory=new_host, stall_timeout=10.0))
    watcher = Probe().spawn(loop)
    loop.watch_fd(read, watcher, Interest.READ)
    loop.send_after(watcher, 3600.0, "never")
    for data in ("end", "hang", "hang", "stop"):
        loop.send(loop.spawn(works), data)
    loop.run()
    loop.destroy()
    os.close(read)
    os.close(write)
    (host,) = hosts
    return leaks_of(loop) + pending_tasks(host) + before.since()


@pytest.mark.guarantee("G21", "G30")
@pytest.mark.parametrize("kind", ["virtual", "lane"])
def test_destroy_leaves_nothing(loop_factory: HostFactory, kind: str) -> None:
    factory = VirtualClock().new_event_loop if kind == "virtual" else loop_factory
    assert leaks_after_destroy(factory, strays=False) == []


@pytest.mark.guarantee("G30")
def test_destroy_leaves_no_task(loop_factory: HostFactory) -> None:
    assert leaks_after_destroy(loop_factory, strays=True) == []
