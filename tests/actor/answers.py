"""Get the answer to an ask in a test that is not a coroutine."""

from __future__ import annotations

from typing import TypeVar

from bandstand.actor import ActorSystem, Reply

R = TypeVar("R")


def answer(loop: ActorSystem, reply: Reply[R]) -> R:
    """Run the loop until it is idle, and return the result of the reply."""
    loop.run(until_idle=True)
    return outcome(reply)


def outcome(reply: Reply[R]) -> R:
    """Return the answer of a reply that has ended, or raise its error."""
    assert reply.done(), "there is no answer"
    try:
        next(reply.__await__())
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("it has ended but still waits")
