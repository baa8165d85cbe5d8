"""Deep trees of scopes and tokens: a cancellation reaches all of them, without recursion."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.errors import TokenCancelledError
from bandstand.scope import CancelToken, Scope

pytestmark = pytest.mark.guarantee("G277")

DEPTH = 3_000


class Nest:
    """Nested scopes, each in a task of the outer one."""

    def __init__(self, *, shares_token: bool) -> None:
        self.shares_token = shares_token
        self.scopes: list[Scope] = []
        self.ended = 0
        self.is_deep = asyncio.Event()
        self.fails = asyncio.Event()

    async def open(self, above: Scope | None, left: int) -> None:
        token = above.token if above is not None and self.shares_token else None
        try:
            async with Scope(token=token) as scope:
                self.scopes.append(scope)
                if left > 1:
                    _ = scope.launch(self.open(scope, left - 1))
                else:
                    self.is_deep.set()
                    await self.fails.wait()
                    raise ValueError("the innermost scope fails")
        finally:
            self.ended += 1


@pytest.mark.slow
@pytest.mark.parametrize("shares_token", [False, True])
def test_a_nest_of_scopes_ends_with_the_outermost(shares_token: bool) -> None:
    async def main() -> None:
        nest = Nest(shares_token=shares_token)
        outermost = asyncio.create_task(nest.open(None, DEPTH))
        await nest.is_deep.wait()
        innermost = nest.scopes[-1]
        assert await nest.scopes[0].cancel("enough")
        await outermost
        assert nest.ended == DEPTH
        assert innermost.token.cancelled
        assert all(not scope.children for scope in nest.scopes)

    asyncio.run(main())


@pytest.mark.slow
def test_an_error_in_the_innermost_scope_ends_all_of_them() -> None:
    async def main() -> None:
        nest = Nest(shares_token=False)
        outermost = asyncio.create_task(nest.open(None, DEPTH))
        await nest.is_deep.wait()
        nest.fails.set()
        (result,) = await asyncio.gather(outermost, return_exceptions=True)
        assert isinstance(result, ExceptionGroup)
        assert nest.ended == DEPTH

    asyncio.run(main())


def test_a_cancellation_reaches_the_end_of_a_chain_of_tokens() -> None:
    root = CancelToken()
    tokens = [root]
    called: list[int | None] = []
    for _ in range(DEPTH):
        token = tokens[-1].child()
        token.on_cancel(lambda one: called.append(one.origin))
        tokens.append(token)
    root.cancel("enough")
    assert called == [root.number] * DEPTH
    with pytest.raises(TokenCancelledError):
        tokens[-1].raise_if_cancelled()


def test_a_chain_of_tokens_without_listeners_is_checked_without_recursion() -> None:
    token = root = CancelToken()
    for _ in range(DEPTH):
        token = token.child()
    assert not token.cancelled
    root.cancel("enough")
    assert token.reason == "enough"
