"""Exceptions whose repr or str raises: as a reason to cancel, and as a failure of a child or a consumer."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.core import Context, Loop
from bandstand.errors import TokenCancelledError
from bandstand.scope import CancelToken, Scope
from tests.hostile import HOW, hostile

pytestmark = [pytest.mark.guarantee("G282"), pytest.mark.parametrize("how", HOW)]


def test_it_can_be_the_reason_of_a_cancellation(how: str) -> None:
    token, error = CancelToken(), hostile(how)
    below = token.child()
    called: list[CancelToken] = []
    below.on_cancel(called.append)
    assert token.cancel(error)
    assert called == [below]
    assert below.cause is error
    assert below.reason is not None
    assert below.reason.startswith(type(error).__name__)
    assert len(below.reason) < 2_000
    below.reason.encode()
    with pytest.raises(TokenCancelledError) as caught:
        below.raise_if_cancelled()
    assert caught.value.__cause__ is error


def test_long_reasons_are_truncated(how: str) -> None:
    token = CancelToken()
    token.cancel(how * 1_000_000)
    assert token.reason is not None
    assert len(token.reason) < 2_000


def test_a_callback_that_raises_it_does_not_prevent_other_callbacks(how: str) -> None:
    def fail(_token: CancelToken) -> None:
        raise hostile(how)

    token = CancelToken()
    called: list[CancelToken] = []
    token.on_cancel(fail)
    token.on_cancel(called.append)
    assert token.cancel("enough")
    assert called == [token]


@pytest.mark.parametrize("is_actor", [False, True])
async def test_a_scope_raises_it(how: str, is_actor: bool, loop: Loop) -> None:
    error = hostile(how)

    async def fail() -> None:
        await asyncio.sleep(0)
        raise error

    def behavior(_ctx: Context[None], _data: object) -> None:
        raise error

    with pytest.raises(ExceptionGroup) as caught:  # noqa: PT012  # the block is what raises
        async with Scope() as scope:
            if is_actor:
                loop.send(scope.spawn(behavior), 1)
            else:
                _ = scope.launch(fail())
            await asyncio.Event().wait()
    assert caught.value.exceptions == (error,)
