"""Choosing: whichever of several sends and receives can be done first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from bandstand.errors import InvalidArgument
from bandstand.scope.checks import check_token, checked_ms
from bandstand.scope.hot.choosing import Choosing
from bandstand.scope.numbers import FOREVER

if TYPE_CHECKING:
    from bandstand.scope.channel import Operation
    from bandstand.scope.token import CancelToken

__all__ = ("select",)

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")


@overload
def select(
    a: Operation[A],
    /,
    *,
    timeout_ms: float | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    /,
    *,
    timeout_ms: float | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    c: Operation[C],
    /,
    *,
    timeout_ms: float | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B | C]]: ...
@overload
def select(
    a: Operation[A],
    b: Operation[B],
    c: Operation[C],
    d: Operation[D],
    /,
    *,
    timeout_ms: float | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A | B | C | D]]: ...
@overload
def select(
    *operations: Operation[A],
    timeout_ms: float | None = ...,
    token: CancelToken | None = ...,
    until_any_closes: bool = ...,
) -> Operation[tuple[int, A]]: ...
def select(
    *operations: Operation[Any],
    timeout_ms: float | None = None,
    token: CancelToken | None = None,
    until_any_closes: bool = False,
) -> Operation[tuple[int, Any]]:
    """Do exactly one of several sends and receives: the first that can be done.

        index, value = await select(orders.receive(), ticks.receive(), results.send(job))

    Answers which one it was, and what came of it (None for a send). The others have not happened: their elements are still
    where they were. Among those that can be done at once it is fair: the channel that was chosen the longest ago comes first.
    A channel that is closed, and has nothing left, is never chosen.

    Args:
        operations: at least one, not awaited, without timeouts and tokens of their own.
        timeout_ms: how long to wait at most, for all of them together; 0 for not at all, None for ever.
        token: what may end the wait as well.
        until_any_closes: whether it is over as soon as one of the channels is closed, with nothing left in it, and none of the
            others can be done at once.

    Raises:
        ChannelClosed: all of the channels are closed, with nothing left in them; or one, if `until_any_closes`.
        ChannelTimeout: none could be done in time.
        Cancelled: the token was cancelled.
        InvalidArgument: there is nothing to choose from, or an operation is none, was used, or has a timeout of its own.
    """
    if not operations:
        raise InvalidArgument(
            "select() has nothing to choose from: pass channel.receive() and channel.send(element)"
        )
    if token is not None:
        check_token(token)
    ms = FOREVER if timeout_ms is None else checked_ms(timeout_ms)
    return cast("Operation[tuple[int, Any]]", Choosing(operations, ms, token, until_any_closes))
