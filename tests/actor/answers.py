"""How tests that have no coroutine of their own get the answer to an ask."""

from __future__ import annotations

from typing import TypeVar

from bandstand.actor import Loop, Reply

R = TypeVar("R")


def answer(loop: Loop, reply: Reply[R]) -> R:
    """Run the loop until it is idle; what the reply has ended with, which it must have by then."""
    loop.run(until_idle=True)
    return outcome(reply)


def outcome(reply: Reply[R]) -> R:
    """What a reply has ended with: the answer is returned, an error raised."""
    assert reply.done(), "nobody has answered"
    try:
        next(reply.__await__())
    except StopIteration as end:
        result: R = end.value
        return result
    raise AssertionError("it has ended, and still waits")
