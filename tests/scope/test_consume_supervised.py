"""Supervised channel actors: every incarnation continues with the next element of the same channel."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from bandstand.core import Loop, Verdict
from bandstand.errors import InvalidArgumentError, RestartLimitError
from bandstand.scope import UNBOUNDED, CancelToken, Channel, Consumer
from bandstand.supervision import (
    ChildSpec,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from tests.core.support import Boom, LoopMaker, check_statistics, settle
from tests.scope.support import filled_channel

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


def test_a_permanent_consumer_of_a_closed_channel_makes_its_supervisor_give_up(make_loop: LoopMaker) -> None:
    loop = make_loop()
    channel = Channel[int]()
    channel.close()
    work = Consumer(channel, print)
    spec = ChildSpec("orders", run=work.run, init=work.init)
    spawn_supervisor(loop, SupervisorSpec(children=[spec]))
    with pytest.raises(RestartLimitError):
        loop.run()


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
