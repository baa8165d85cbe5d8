"""Answering an ask with a coroutine."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, NoReturn

from bandstand.errors import BadVerdict

if TYPE_CHECKING:
    from bandstand.service.hot.method import Method
    from bandstand.service.hot.reply import Asked

__all__ = ("answering", "refuse_result")


async def answering(method: Method, asked: Asked, work: Awaitable[Any]) -> None:
    """Perform an async handler and answer with what it returns.

    A handler that is cancelled because its asker has gone has ended; that is no failure of its actor. What it raises that
    its method does not declare is one, and the exit path tells the asker.
    """
    try:
        result = await work
    except CancelledError:
        if not asked.is_withdrawn():
            raise
    except method.raises as error:
        asked.fail(error)
    else:
        asked.answer(result)


def refuse_result(method: Method, result: object) -> NoReturn:
    """A one-way method has returned something, and there is nobody to give it to."""
    raise BadVerdict(
        f"{method.owner}.{method.name}() returned {result!r}, but it is one-way and nobody waits for it: mark it with @ask, or "
        f"return nothing"
    )
