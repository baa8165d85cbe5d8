"""Supervised channel actors: every incarnation continues with the next element of the same channel."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from bandstand.core import ExitReason, Loop, Verdict
from bandstand.errors import InvalidArgumentError, RestartLimitError
from bandstand.scope import UNBOUNDED, CancelToken, Channel, Consumer
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, LoopMaker, check_statistics, settle
from tests.scope.harness import SlowFunction, filled_channel, run_with_loop, wait_until

PATIENT = 100


@pytest.fixture(autouse=True)
def quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "bandstand")


def supervised(loop: Loop, work: Consumer[Any], **fields: Any) -> Supervisor:
    fields.setdefault("restart", RestartPolicy.ON_FAILURE)
    spec = ChildSpec("orders", run=work.run, init=work.init, **fields)
    return spawn_supervisor(loop, SupervisorSpec(children=[spec], max_restarts=PATIENT))


class Picky:
    """A function that fails at some elements, in different ways."""

    def __init__(self) -> None:
        self.got: list[int] = []

    def __call__(self, number: int) -> Verdict | None:
        self.got.append(number)
        if number % 10 == 3:
            raise Boom(number)
        if number % 10 == 7:
            return Verdict.FAIL
        return None


@pytest.mark.spec("K1", "K7")
@pytest.mark.guarantee("G109", "G112")
def test_a_failed_consumer_is_restarted_and_continues_with_the_next_element(loop: Loop) -> None:
    channel, picky = filled_channel(*range(30)), Picky()
    root = supervised(loop, Consumer(channel, picky))
    first = root.child("orders")
    settle(loop)
    # Each element once, including those at which it failed.
    assert picky.got == list(range(30))
    (info,) = root.children()
    assert info.restarts == 6
    assert info.actor != first
    assert len(channel) == 0
    check_statistics(loop)


@pytest.mark.spec("K1", "K7")
@pytest.mark.guarantee("G112")
def test_the_same_with_an_async_function() -> None:
    async def main(loop: Loop) -> None:
        channel, picky = filled_channel(*range(30)), Picky()

        async def process(number: int) -> Verdict | None:
            await asyncio.sleep(0)
            return picky(number)

        supervised(loop, Consumer(channel, process))
        await wait_until(lambda: len(picky.got) == 30)
        assert picky.got == list(range(30))

    run_with_loop(main)


@pytest.mark.spec("K3")
@pytest.mark.guarantee("G109")
def test_close_ends_a_transient_consumer_for_good(loop: Loop) -> None:
    channel, picky = filled_channel(*range(5)), Picky()
    root = supervised(loop, Consumer(channel, picky))
    channel.close()
    settle(loop)
    assert picky.got == list(range(5))
    assert root.child("orders") is None
    (info,) = root.children()
    assert info.restarts == 1


@pytest.mark.spec("K4")
def test_a_cancelled_token_ends_a_transient_consumer_for_good(loop: Loop) -> None:
    token = CancelToken()
    channel = Channel[int](UNBOUNDED)
    root = supervised(loop, Consumer(channel, print, token=token))
    settle(loop)
    token.cancel("enough")
    settle(loop)
    assert root.child("orders") is None
    assert channel.statistics().receivers == 0
    root = supervised(loop, Consumer(channel, print, token=token))
    settle(loop)
    assert root.child("orders") is None


@pytest.mark.spec("K4")
def test_a_token_applies_to_all_incarnations(loop: Loop) -> None:
    token = CancelToken()
    channel, picky = filled_channel(3, 13, 23), Picky()
    root = supervised(loop, Consumer(channel, picky, token=token))
    settle(loop)
    (info,) = root.children()
    assert info.restarts == 3
    token.cancel()
    settle(loop)
    assert root.child("orders") is None
    channel.try_send(1)
    settle(loop)
    assert picky.got == [3, 13, 23]


def test_a_permanent_consumer_of_a_closed_channel_makes_its_supervisor_give_up(make_loop: LoopMaker) -> None:
    loop = make_loop()
    channel = Channel[int]()
    channel.close()
    work = Consumer(channel, print)
    spec = ChildSpec("orders", run=work.run, init=work.init)
    spawn_supervisor(loop, SupervisorSpec(children=[spec]))
    with pytest.raises(RestartLimitError):
        loop.run()


@pytest.mark.spec("K7")
def test_the_cause_is_visible_to_the_supervisor(make_loop: LoopMaker) -> None:
    loop = make_loop()

    def process(number: int) -> None:
        raise Boom(number)

    channel = filled_channel(*range(10))
    work = Consumer(channel, process)
    spec = ChildSpec("orders", run=work.run, init=work.init)
    spawn_supervisor(loop, SupervisorSpec(children=[spec], max_restarts=2))
    with pytest.raises(RestartLimitError) as caught:
        loop.run()
    assert [str(error) for error in caught.value.failures] == ["0", "1", "2"]
    assert len(channel) == 7


@pytest.mark.guarantee("G112")
def test_an_element_handed_to_a_stopped_consumer_goes_to_the_next(loop: Loop) -> None:
    channel, got = Channel[int](UNBOUNDED), list[int]()
    root = supervised(loop, Consumer(channel, got.append))
    settle(loop)
    channel.try_send(1)
    channel.try_send(2)
    root.stop_child("orders")
    assert (got, len(channel)) == ([], 2)
    root.restart_child("orders")
    settle(loop)
    assert got == [1, 2]


@pytest.mark.spec("K4")
def test_a_supervisor_that_stops_it_cancels_what_is_in_flight() -> None:
    async def main(loop: Loop) -> None:
        slow = SlowFunction[int]()
        channel = filled_channel(1, 2)
        root = supervised(loop, Consumer(channel, slow))
        await wait_until(lambda: slow.begun == [1])
        root.stop()
        await wait_until(lambda: slow.cancelled == [1])
        await wait_until(lambda: loop.statistics().alive == 0)
        assert len(channel) == 1

    run_with_loop(main)


@pytest.mark.guarantee("G112")
def test_elements_wait_in_the_channel_during_a_backoff(loop: Loop, clock: VirtualClock) -> None:
    channel, picky = filled_channel(3, 4), Picky()
    supervised(loop, Consumer(channel, picky), backoff=Backoff(initial=0.5))
    settle(loop)
    clock.advance(0.1)
    settle(loop)
    assert (picky.got, len(channel), channel.statistics().receivers) == ([3], 1, 0)
    clock.advance(1.0)
    settle(loop)
    assert picky.got == [3, 4]


def test_a_partition_of_them_shares_one_channel(loop: Loop) -> None:
    channel, got = filled_channel(*range(40)), list[int]()
    work = Consumer(channel, got.append)
    spec = ChildSpec("worker", run=work.run, init=work.init)
    spawn_supervisor(loop, PartitionSpec(child=spec, partitions=4))
    settle(loop)
    assert got == list(range(40))
    assert channel.statistics().receivers == 4


def test_a_dynamic_supervisor_starts_consumers(loop: Loop) -> None:
    channel, got = Channel[int](), list[int]()
    work = Consumer(channel, got.append)
    spec = ChildSpec("worker", run=work.run, init=work.init, restart=RestartPolicy.NEVER)
    pool = spawn_supervisor(loop, DynamicSpec(child=spec))
    settle(loop)
    for number in range(3):
        pool.start_child(number)
    settle(loop)
    assert channel.statistics().receivers == 3
    assert all(channel.try_send(number) for number in range(3))
    settle(loop)
    assert got == [0, 1, 2]


def test_kept_mailboxes_do_not_matter(loop: Loop) -> None:
    """Messages to its id are ignored by the next incarnation too."""
    channel, picky = filled_channel(3, 4), Picky()
    root = supervised(loop, Consumer(channel, picky), keep_mailbox=True)
    for _ in range(3):
        loop.send(root.address("orders"), "stray")
    settle(loop)
    assert picky.got == [3, 4]
    check_statistics(loop)


def test_it_appears_in_the_tree(loop: Loop) -> None:
    channel, picky = filled_channel(3), Picky()
    supervised(loop, Consumer(channel, picky))
    settle(loop)
    assert str(loop.tree()) == "root (running)\n└── orders (running, 1 restart)"


@pytest.mark.spec("K7")
def test_stop_is_a_normal_end(loop: Loop) -> None:
    channel = filled_channel(None, Verdict.STOP, None)
    root = supervised(loop, Consumer(channel, lambda verdict: verdict))
    settle(loop)
    assert root.child("orders") is None
    assert len(channel) == 1


def test_nothing_is_left_in_the_channel_by_its_incarnations(loop: Loop) -> None:
    channel = Channel[int](UNBOUNDED)
    root = supervised(loop, Consumer(channel, print))
    settle(loop)
    for _ in range(10):
        loop.fail_actor(root.address("orders"))
        settle(loop)
    assert channel.statistics().receivers == 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("no channel", print), "channel is 'no channel': pass a Channel"),
        ((Channel[int](), None), "process is None: pass a function"),
    ],
)
def test_invalid_arguments_are_refused(arguments: Any, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        Consumer(*arguments)
    with pytest.raises(InvalidArgumentError, match="token is 1"):
        Consumer(Channel[int](), print, token=1)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose


def test_its_exit_reason_is_that_of_any_actor(loop: Loop) -> None:
    seen: list[ExitReason] = []

    class Watch:
        def on_actor_stop(self, id: object, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
            seen.append(reason)

    loop.set_observer(Watch())
    channel = filled_channel(3, 7, 1)
    supervised(loop, Consumer(channel, Picky()))
    channel.close()
    settle(loop)
    assert seen == [ExitReason.PANIC, ExitReason.FAIL, ExitReason.NORMAL]
