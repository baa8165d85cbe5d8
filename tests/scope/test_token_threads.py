"""Tokens between real threads: whoever comes at the same time, everything happens exactly once."""

# Functions of a round end with their round: what they find in it is what they should.
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
from bandstand.errors import Cancelled
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from bandstand.testing import VirtualClock
from tests.scope.tokens import Ear, has_timers, heard, hurried, is_tidy

pytestmark = [pytest.mark.spec("K4"), pytest.mark.slow]

ROUNDS = 150
PATIENCE = 30


def at_once(*works: Callable[[], object]) -> None:
    """Do all of it at the same time, each on a thread of its own."""
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
def test_many_cancel_at_once_and_one_of_them_did_it() -> None:
    for _ in range(ROUNDS):
        root = CancelToken()
        leaf = root.child().child()
        told: Counter[str] = Counter()
        for each in (root, leaf):
            each.on_cancel(lambda which: told.update([f"{which.number}"]))
        won: list[str] = []
        reasons: list[str | None] = []

        def cancel(reason: str) -> None:
            if root.cancel(reason):
                won.append(reason)
            reasons.append(root.reason)

        with hurried():
            at_once(*(lambda reason=f"thread {n}": cancel(reason) for n in range(8)))
        assert len(won) == 1
        assert set(reasons) == {won[0]}
        assert leaf.reason == won[0]
        assert told == {f"{root.number}": 1, f"{leaf.number}": 1}
        assert heard(root) == heard(leaf) == 0


@pytest.mark.guarantee("G100", "G101")
def test_those_above_and_below_cancel_at_once() -> None:
    """Whatever the order: every token has one reason that never changes, a parent's goes down, and each is told once."""
    for _ in range(ROUNDS):
        root = CancelToken()
        middle = root.child()
        leaf = middle.child()
        chain = (root, middle, leaf)
        told: Counter[int] = Counter()
        for each in chain:
            each.on_cancel(lambda which: told.update([which.number]))
        won: dict[int, bool] = {}
        seen: list[tuple[int, str | None]] = []

        def cancel(which: CancelToken) -> None:
            won[which.number] = which.cancel(f"by {which.number}")
            seen.append((which.number, which.reason))

        with hurried():
            at_once(*(lambda which=which: cancel(which) for which in chain))
        assert won[root.number]
        for each in chain:
            assert won[each.number] == (each.origin == each.number)
        assert root.reason == f"by {root.number}"
        assert all(reason == next(t.reason for t in chain if t.number == number) for number, reason in seen)
        assert told == {each.number: 1 for each in chain}
        assert is_tidy(*chain)


@pytest.mark.guarantee("G101")
def test_a_listener_that_comes_while_it_is_cancelled_is_told_once() -> None:
    for _ in range(ROUNDS):
        root = CancelToken()
        leaves = [root.child().child() for _ in range(2)]
        ears = [Ear() for _ in range(40)]

        def listen(share: int) -> None:
            for number, ear in enumerate(ears[share::4]):
                leaves[number % 2].add_listener(ear)

        with hurried():
            at_once(root.cancel, *(lambda share=share: listen(share) for share in range(4)))
        assert [ear.told for ear in ears] == [1] * 40
        assert heard(root) == 0
        assert all(heard(leaf) == 0 for leaf in leaves)
        assert is_tidy(*leaves)


def note(told: Counter[int], number: int, _: CancelToken) -> None:
    told[number] += 1


@pytest.mark.guarantee("G101")
def test_one_that_is_taken_back_while_it_is_cancelled_is_called_or_was_taken_back() -> None:
    outcomes: set[tuple[bool, int]] = set()
    for _ in range(ROUNDS):
        root = CancelToken()
        leaf = root.child()
        told: Counter[int] = Counter()
        take_back = [leaf.on_cancel(partial(note, told, n)) for n in range(40)]
        taken: dict[int, bool] = {}

        def take(share: int) -> None:
            for number in range(share, 40, 2):
                taken[number] = take_back[number]()

        with hurried():
            at_once(root.cancel, lambda: take(0), lambda: take(1))
        for number in range(40):
            assert taken[number] != bool(told[number]), "called, or taken back: one of the two"
            outcomes.add((taken[number], told[number]))
        assert heard(root) == heard(leaf) == 0
    assert outcomes == {(True, 0), (False, 1)}, "both have happened, or this test shows nothing"


@pytest.mark.guarantee("G102")
def test_a_crowd_that_comes_and_goes_leaves_the_tree_tidy() -> None:
    root = CancelToken()
    middles = [root.child() for _ in range(3)]
    leaves = [middle.child() for middle in middles for _ in range(3)]

    def crowd(seed: int) -> None:
        random = Random(seed)
        mine: list[tuple[CancelToken, Ear]] = []
        for _ in range(600):
            if mine and random.random() < 0.5:
                token, ear = mine.pop(random.randrange(len(mine)))
                assert token.remove_listener(ear)
            else:
                mine.append((random.choice([root, *middles, *leaves]), Ear()))
                mine[-1][0].add_listener(mine[-1][1])
        for token, ear in mine:
            assert token.remove_listener(ear)
            assert ear.told == 0

    with hurried():
        at_once(*(lambda seed=seed: crowd(seed) for seed in range(4)))
    assert all(heard(token) == 0 for token in (root, *middles, *leaves))
    told = Ear()
    leaves[4].add_listener(told)
    root.cancel()
    assert told.told == 1


@pytest.mark.guarantee("G103")
def test_deadlines_that_are_wanted_and_not_wanted_by_other_threads_are_kept_by_the_loops() -> None:
    """The timer is set and taken back on the loop's thread only, and at the end it is as it should be."""
    clock = VirtualClock(autojump=False)
    with Loop(clock=clock) as loop:
        root = CancelToken(timeout_ms=10_000, loop=loop)
        leaves = [root.child(timeout_ms=5000) for _ in range(3)]
        stays, is_over = Ear(), threading.Event()

        def crowd(seed: int) -> None:
            random = Random(seed)
            for _ in range(300):
                token, ear = random.choice(leaves), Ear()
                token.add_listener(ear)
                assert token.remove_listener(ear)

        def work() -> None:
            try:
                with hurried():
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
        thread = threading.Thread(target=leaves[0].add_listener, args=(stays,))
        thread.start()
        thread.join(PATIENCE)
        loop.poll_once()
        assert has_timers(loop)
        clock.advance(5000)
        loop.poll_once()
        assert stays.told == 1
        assert not has_timers(loop)


@pytest.mark.guarantee("G103")
def test_a_loop_that_ends_while_threads_listen_tells_all_of_them() -> None:
    for _ in range(20):
        loop = Loop(clock=VirtualClock(autojump=False))
        tokens = [CancelToken(timeout_ms=5000, loop=loop) for _ in range(20)]
        ears = [Ear() for _ in tokens]

        def listen() -> None:
            for token, ear in zip(tokens, ears, strict=True):
                token.add_listener(ear)

        thread = threading.Thread(target=listen)
        with hurried():
            thread.start()
            loop.poll_once()
            loop.destroy()
            thread.join(PATIENCE)
        assert [ear.told for ear in ears] == [1] * 20
        assert {token.reason for token in tokens} == {"the loop that kept its deadline has ended"}


@pytest.mark.guarantee("G101")
def test_threads_that_wait_are_woken() -> None:
    for _ in range(20):
        token, channel = CancelToken(), Channel[int]()
        reasons: list[str] = []

        def wait() -> None:
            reasons.append(token.child().wait().blocking())

        def receive() -> None:
            with pytest.raises(Cancelled):
                channel.receive(token=token.child()).blocking()

        with hurried():
            at_once(wait, wait, receive, receive, lambda: token.cancel("enough"))
        assert reasons == ["enough"] * 2
        assert heard(token) == 0


@pytest.mark.guarantee("G101")
def test_functions_are_called_outside_of_locks_on_the_thread_that_cancels() -> None:
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
    # It is in the middle of it, and everybody else can use tokens: this one, too.
    other = Ear()
    token.add_listener(other)
    assert other.told == 1
    assert token.child().cancelled
    assert not token.cancel()
    assert CancelToken().cancel()
    may_end.set()
    thread.join(PATIENCE)
    assert threads == [thread]


@pytest.mark.guarantee("G101")
def test_tasks_of_another_thread_are_woken(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    for _ in range(20):
        token = CancelToken()
        begun = threading.Event()

        async def main() -> list[str]:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(_wait(token.child())) for _ in range(5)]
                await asyncio.sleep(0)
                begun.set()
            return [task.result() for task in tasks]

        def cancel() -> None:
            assert begun.wait(PATIENCE)
            token.cancel("from afar")

        def run() -> None:
            with asyncio.Runner(loop_factory=loop_factory) as runner:
                assert runner.run(main()) == ["from afar"] * 5

        with hurried():
            at_once(run, cancel)


async def _wait(token: CancelToken) -> str:
    return await token.wait()


@pytest.mark.guarantee("G101")
@pytest.mark.parametrize("is_guarded", [True, False])
def test_a_signal_handler_may_cancel_while_the_event_loop_sleeps(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], *, is_guarded: bool
) -> None:
    """A handler of Python's own does not end the sleep of asyncio's selector: the token does."""
    token = CancelToken()

    async def main() -> str | None:
        host = asyncio.get_running_loop()
        patience = host.call_later(
            PATIENCE, token.cancel, "it was woken by nothing but the end of our patience"
        )
        threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        if is_guarded:
            with pytest.raises(Cancelled):
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
