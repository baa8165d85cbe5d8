"""Chains of children thousands of levels deep end completely, without recursion."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bandstand.actor import Actor, ActorSystem, Signal, tell
from bandstand.core import ExitReason
from bandstand.errors import ChildFailedError
from tests.core.support import Boom, RecordingObserver, settle

pytestmark = pytest.mark.guarantee("G277")

DEPTH = 3_000


class Link(Actor):
    """Starts one child below itself, until the chain is long enough."""

    def __init__(self, left: int, ends: list[int]) -> None:
        self.left = left
        self.ends = ends

    @tell
    def grow(self) -> None:
        if self.left > 1:
            self.spawn(type(self), self.left - 1, self.ends).grow()

    @tell
    def crash(self) -> None:
        raise Boom("the root fails")


class SaysGoodbye(Link):
    """The same with an on_stop."""

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.ends.append(self.left)


class SaysGoodbyeSlowly(Link):
    """The same with an async on_stop."""

    async def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        self.ends.append(self.left)


def chain(loop: ActorSystem, kind: type[Link], ends: list[int]) -> Link:
    root = loop.spawn(kind, DEPTH, ends)
    root.grow()
    settle(loop)
    assert loop.statistics().alive == DEPTH
    return root


ENDS: dict[str, Callable[[ActorSystem, Link], object]] = {
    "stop": lambda loop, root: root.stop(),
    "drain": lambda loop, root: root.stop(drain=True),
    "kill": lambda loop, root: root.kill(),
    "failure": lambda loop, root: root.crash(),
    "destroy": lambda loop, root: loop.destroy(),
    "request_stop": lambda loop, root: loop.request_stop(),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_whole_chain_ends_with_its_root(loop: ActorSystem, diary: RecordingObserver, how: str) -> None:
    root = chain(loop, Link, [])
    oldest_first = [actor for actor, _ in diary.started]
    ENDS[how](loop, root)
    if how == "request_stop":
        loop.destroy()
    elif how != "destroy":
        settle(loop)
    assert loop.statistics().alive == 0
    assert [actor for actor, _ in diary.stopped] == oldest_first[::-1]


@pytest.mark.parametrize("how", ["stop", "kill", "failure", "destroy"])
def test_each_actor_of_a_chain_runs_its_on_stop_once(loop: ActorSystem, how: str) -> None:
    ends: list[int] = []
    ENDS[how](loop, chain(loop, SaysGoodbye, ends))
    if how != "destroy":
        settle(loop)
    first = DEPTH - 1 if how == "kill" else DEPTH
    assert ends == list(range(first, 0, -1))
    assert loop.statistics().alive == 0


@pytest.mark.parametrize("how", ["stop", "destroy"])
def test_each_actor_of_a_chain_runs_its_async_on_stop_once(loop: ActorSystem, how: str) -> None:
    ends: list[int] = []
    ENDS[how](loop, chain(loop, SaysGoodbyeSlowly, ends))
    if how != "destroy":
        settle(loop)
        loop.run(until_idle=True)
    assert sorted(ends) == list(range(1, DEPTH + 1))
    assert loop.statistics().alive == 0


def test_a_failure_goes_up_a_chain_to_its_root(loop: ActorSystem, diary: RecordingObserver) -> None:
    class Fragile(Link):
        @tell
        def grow(self) -> None:
            super().grow()
            if self.left == 1:
                raise Boom("the last one fails")

    class Root(Fragile):
        def on_signal(self, signal: Signal) -> None:
            heard.append(signal)

        @tell
        def grow(self) -> None:
            self.spawn(Fragile, self.left - 1, self.ends).grow()

    heard: list[Signal] = []
    loop.spawn(Root, DEPTH, []).grow()
    settle(loop)
    assert loop.statistics().alive == 1
    assert len(diary.stopped) == DEPTH - 1
    assert {reason for _, reason in diary.stopped} == {ExitReason.PANIC}
    (signal,) = heard
    cause: BaseException | None = getattr(signal, "cause", None)
    assert isinstance(cause, ChildFailedError)
