"""Tokens and threads: under all races, everything happens exactly once."""

# Functions defined in a loop are used only in that iteration.
# ruff: noqa: B023

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from bandstand.core import Loop
from bandstand.errors import TokenCancelledError
from bandstand.scope.cancel import CancelToken
from bandstand.testing import VirtualClock
from tests.scope.support import (
    CountingListener,
    fast_thread_switching,
    has_timers,
    in_thread,
    is_linked_correctly,
    listener_count,
)

pytestmark = [pytest.mark.spec("K4"), pytest.mark.slow]

ROUNDS = 150
PATIENCE = 30


def at_once(*works: Callable[[], object]) -> None:
    """Call all functions concurrently, each on its own thread."""
    start = threading.Barrier(len(works))
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        start.wait(PATIENCE)
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # it is raised below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it waits for ever"
    for error in errors:
        raise error


@pytest.mark.guarantee("G100", "G101")
def test_parents_and_children_are_cancelled_at_once() -> None:
    """In any order: every token has one reason that never changes, parents cancel children, and each listener is notified once."""
    for _ in range(ROUNDS):
        root = CancelToken()
        middle = root.child()
        leaf = middle.child()
        chain = (root, middle, leaf)
        called: Counter[int] = Counter()
        for each in chain:
            each.on_cancel(lambda which: called.update([which.number]))
        won: dict[int, bool] = {}
        seen: list[tuple[int, str | None]] = []

        def cancel(which: CancelToken) -> None:
            won[which.number] = which.cancel(f"by {which.number}")
            seen.append((which.number, which.reason))

        with fast_thread_switching():
            at_once(*(lambda which=which: cancel(which) for which in chain))
        assert won[root.number]
        for each in chain:
            assert won[each.number] == (each.origin == each.number)
        assert root.reason == f"by {root.number}"
        assert all(reason == next(t.reason for t in chain if t.number == number) for number, reason in seen)
        assert called == {each.number: 1 for each in chain}
        assert is_linked_correctly(*chain)


@pytest.mark.guarantee("G101")
def test_a_listener_added_during_the_cancellation_is_notified_once() -> None:
    for _ in range(ROUNDS):
        root = CancelToken()
        leaves = [root.child().child() for _ in range(2)]
        listeners = [CountingListener() for _ in range(40)]

        def listen(share: int) -> None:
            for number, listener in enumerate(listeners[share::4]):
                leaves[number % 2].add_listener(listener)

        with fast_thread_switching():
            at_once(root.cancel, *(lambda share=share: listen(share) for share in range(4)))
        assert [listener.calls for listener in listeners] == [1] * 40
        assert listener_count(root) == 0
        assert all(listener_count(leaf) == 0 for leaf in leaves)
        assert is_linked_correctly(*leaves)


def note(called: Counter[int], number: int, _: CancelToken) -> None:
    called[number] += 1


@pytest.mark.guarantee("G101")
def test_a_callback_removed_during_the_cancellation_is_either_called_or_removed() -> None:
    outcomes: set[tuple[bool, int]] = set()
    for _ in range(ROUNDS):
        root = CancelToken()
        leaf = root.child()
        called: Counter[int] = Counter()
        take_back = [leaf.on_cancel(partial(note, called, n)) for n in range(40)]
        taken: dict[int, bool] = {}

        def take(share: int) -> None:
            for number in range(share, 40, 2):
                taken[number] = take_back[number]()

        with fast_thread_switching():
            at_once(root.cancel, lambda: take(0), lambda: take(1))
        for number in range(40):
            assert taken[number] != bool(called[number]), "called, or taken back: one of the two"
            outcomes.add((taken[number], called[number]))
        assert listener_count(root) == listener_count(leaf) == 0
    assert outcomes == {(True, 0), (False, 1)}, "both cases must occur, or the test proves nothing"


@pytest.mark.guarantee("G103")
def test_listeners_of_other_threads_start_and_stop_timers_on_the_loops_thread() -> None:
    """The timer is set and cancelled on the loop's thread only, and the final state is consistent."""
    clock = VirtualClock(autojump=False)
    with Loop(clock=clock) as loop:
        root = CancelToken(timeout=10.0, loop=loop)
        leaves = [root.child(timeout=5.0) for _ in range(3)]
        stays, is_over = CountingListener(), threading.Event()

        def crowd(seed: int) -> None:
            random = Random(seed)
            for _ in range(300):
                token, listener = random.choice(leaves), CountingListener()
                token.add_listener(listener)
                assert token.remove_listener(listener)

        def work() -> None:
            try:
                with fast_thread_switching():
                    at_once(*(lambda seed=seed: crowd(seed) for seed in range(3)))
            finally:
                is_over.set()

        thread = threading.Thread(target=work)
        thread.start()
        while not is_over.is_set():
            loop.poll_once()
        thread.join(PATIENCE)
        loop.poll_once()
        assert not has_timers(loop)
        in_thread(leaves[0].add_listener, stays)
        loop.poll_once()
        assert has_timers(loop)
        clock.advance(5.0)
        loop.poll_once()
        assert stays.calls == 1
        assert not has_timers(loop)


@pytest.mark.guarantee("G101")
def test_callbacks_run_outside_locks_on_the_thread_that_cancels() -> None:
    token = CancelToken()
    threads: list[object] = []
    is_called, may_end = threading.Event(), threading.Event()

    def callback(_: CancelToken) -> None:
        threads.append(threading.current_thread())
        is_called.set()
        assert may_end.wait(PATIENCE)

    token.on_cancel(callback)
    thread = threading.Thread(target=token.cancel)
    thread.start()
    assert is_called.wait(PATIENCE)
    # The callback is running, and other threads can use tokens, including this one.
    other = CountingListener()
    token.add_listener(other)
    assert other.calls == 1
    assert token.child().cancelled
    assert not token.cancel()
    assert CancelToken().cancel()
    may_end.set()
    thread.join(PATIENCE)
    assert threads == [thread]


@pytest.mark.guarantee("G101")
@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_signal_handler_may_cancel_while_the_event_loop_sleeps(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], *, is_guarded: bool
) -> None:
    """A Python signal handler does not end the sleep of asyncio's selector; the token does."""
    token = CancelToken()

    async def main() -> str | None:
        host = asyncio.get_running_loop()
        patience = host.call_later(
            PATIENCE, token.cancel, "it was woken by nothing but the end of our patience"
        )
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        if is_guarded:
            with pytest.raises(TokenCancelledError):
                async with token.guard():
                    await asyncio.Event().wait()
        else:
            await token.wait()
        patience.cancel()
        return token.reason

    def handler(_number: int, _frame: object) -> None:
        token.cancel("signal")

    before = signal.signal(signal.SIGUSR1, handler)
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            assert runner.run(main()) == "signal"
    finally:
        signal.signal(signal.SIGUSR1, before)
