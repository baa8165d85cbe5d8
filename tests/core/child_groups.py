"""What the tests of links, kills and children play with: a family that writes down what it is asked, a short way to give
birth, and coroutines that will not end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from bandstand.core import ActorId, ChildStart, Context, Exit, Loop
from bandstand.core.messages import ChildSummary
from tests.core.stage import Seen, idle

TURNS = 5_000


class Household:
    """A family: its children in their order, what they have left, and whoever is down."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.children: list[ActorId] = []
        self.estates: list[Any] = []
        self.kept: list[ActorId] = []
        self.shown: list[ChildSummary] | None = None
        self.disbanded = 0

    def take_all(self, children: list[ActorId]) -> None:
        self.disbanded += 1
        while self.estates:
            self.loop.kernel.discard_mailbox(self.estates.pop(0))
        children.extend(self.children)

    def kill_cause(self) -> None:
        """Let a coroutine take its time."""

    def keep(self, actor: ActorId, estate: Any) -> None:
        self.kept.append(actor)
        self.estates.append(estate)

    def members(self) -> Sequence[ChildSummary]:
        if self.shown is not None:
            return self.shown
        return [ChildSummary(f"child {place}", actor, 0, "") for place, actor in enumerate(self.children)]


def bear(
    loop: Loop,
    behavior: Callable[[Context[Any], Any], Any] = idle,
    init: Callable[[Context[Any]], Any] | None = None,
    *,
    supervisor: ActorId | None = None,
    name: str | None = None,
    cap: int | None = None,
    keeps: bool = False,
    estate: Any = None,
) -> ActorId:
    """Spawn a child, with what most tests do not care about."""
    return loop.kernel.actors.spawn_child(
        behavior,
        init,
        name=name,
        cap=loop.kernel.actors.checked_cap(cap),
        supervisor=supervisor,
        context=copy_context(),
        keeps=keeps,
        kept_mailbox=estate,
    )


def found(loop: Loop, behavior: Callable[[Context[Any], Any], Any] = idle) -> tuple[ActorId, Household]:
    """Spawn a supervisor; itself and its family."""
    boss = loop.spawn(behavior)
    family = Household(loop)
    loop.kernel.actors.set_child_group(boss, family)
    return boss, family


def starts(seen: list[Seen]) -> list[ActorId]:
    return [message.data.child for message in seen if isinstance(message.data, ChildStart)]


def partings(seen: list[Seen]) -> list[Exit]:
    return [message.data for message in seen if isinstance(message.data, Exit)]


def poll_until(loop: Loop, condition: Callable[[], object]) -> None:
    """Tick by hand until something holds."""
    for _ in range(TURNS):
        if condition():
            return
        loop.poll_once()
    raise AssertionError(f"that never came: {loop.statistics()}")


class Stubborn:
    """An async behavior, or init, that counts its cancellations and ends only when it is released."""

    def __init__(self) -> None:
        self.begun = 0
        self.cancellations = 0
        self.ended = 0
        self.answer: Any = None
        self.error: BaseException | None = None
        self.release = asyncio.Event()

    async def __call__(self, ctx: Context[Any], data: object = None) -> Any:
        self.begun += 1
        while not self.release.is_set():
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancellations += 1
        self.ended += 1
        if self.error is not None:
            raise self.error
        return self.answer
