"""An exception that cannot be shown: a reason to cancel like any other, and a failure of a child or consumer like any other."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.core import Context, Loop
from bandstand.errors import Cancelled
from bandstand.scope import UNBOUNDED, CancelToken, Channel, Consumer, Scope
from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor
from tests.core.stage import settle
from tests.hostile import HOW, hostile
from tests.scope.consuming import ride

pytestmark = [pytest.mark.guarantee("G282"), pytest.mark.parametrize("how", HOW)]


def test_a_token_is_cancelled_for_it(how: str) -> None:
    token, error = CancelToken(), hostile(how)
    below = token.child()
    told: list[CancelToken] = []
    below.on_cancel(told.append)
    assert token.cancel(error)
    assert told == [below]
    assert below.cause is error
    assert below.reason is not None
    assert below.reason.startswith(type(error).__name__)
    assert len(below.reason) < 2_000
    below.reason.encode()
    with pytest.raises(Cancelled) as caught:
        below.raise_if_cancelled()
    assert caught.value.__cause__ is error


def test_words_of_any_length_are_kept_within_a_bound(how: str) -> None:
    token = CancelToken()
    token.cancel(how * 1_000_000)
    assert token.reason is not None
    assert len(token.reason) < 2_000


def test_a_callback_of_a_token_that_raises_it_keeps_no_other_from_its_call(how: str) -> None:
    def fail(_token: CancelToken) -> None:
        raise hostile(how)

    token = CancelToken()
    told: list[CancelToken] = []
    token.on_cancel(fail)
    token.on_cancel(told.append)
    assert token.cancel("enough")
    assert told == [token]


@pytest.mark.parametrize("is_actor", [False, True])
def test_a_scope_raises_it(how: str, is_actor: bool) -> None:
    error = hostile(how)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    def behavior(_ctx: Context[None], _data: object) -> None:
        raise error

    async def main(loop: Loop) -> None:
        with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  # the block is what raises
            async with Scope() as scope:
                if is_actor:
                    loop.send(scope.spawn(behavior), 1)
                else:
                    _ = scope.launch(fail())
                await asyncio.Event().wait()
        assert caught.value.exceptions == (error,)

    ride(main)


def test_a_consumer_is_started_again_and_goes_on(loop: Loop, how: str) -> None:
    got: list[int] = []

    def process(number: int) -> None:
        got.append(number)
        if number == 1:
            raise hostile(how)

    channel = Channel[int](UNBOUNDED)
    for number in range(4):
        channel.try_send(number)
    work = Consumer(channel, process)
    spec = ChildSpec("consumer", run=work.run, init=work.init)
    spawn_supervisor(loop, SupervisorSpec(children=[spec], intensity=100))
    settle(loop)
    assert got == [0, 1, 2, 3]
