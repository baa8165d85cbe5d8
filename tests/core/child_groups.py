"""Support for tests of links, kills and children: a child group that records its calls, short ways to spawn, and coroutines that do not end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextvars import copy_context
from typing import Any

from bandstand.core import ActorId, ChildStart, Context, Exit, Loop
from bandstand.core.messages import ChildSummary
from tests.core.support import Seen, idle

TURNS = 5_000


class RecordingChildGroup:
    """A child group that records the calls of the kernel."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.children: list[ActorId] = []
        self.mailboxes: list[Any] = []
        self.kept: list[ActorId] = []
        self.shown: list[ChildSummary] | None = None
        self.taken = 0

    def take_all(self, children: list[ActorId]) -> None:
        self.taken += 1
        while self.mailboxes:
            self.loop.kernel.discard_mailbox(self.mailboxes.pop(0))
        children.extend(self.children)

    def kill_cause(self) -> None:
        """Let coroutines of children end on their own."""

    def keep(self, actor: ActorId, estate: Any) -> None:
        self.kept.append(actor)
        self.mailboxes.append(estate)

    def members(self) -> Sequence[ChildSummary]:
        if self.shown is not None:
            return self.shown
        return [ChildSummary(f"child {place}", actor, 0, "") for place, actor in enumerate(self.children)]


def add_child(
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
    """Spawn a child, with defaults for most tests."""
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


def add_supervisor(
    loop: Loop, behavior: Callable[[Context[Any], Any], Any] = idle
) -> tuple[ActorId, RecordingChildGroup]:
    """Spawn a supervisor; return its id and its child group."""
    supervisor = loop.spawn(behavior)
    group = RecordingChildGroup(loop)
    loop.kernel.actors.set_child_group(supervisor, group)
    return supervisor, group


def start_messages(seen: list[Seen]) -> list[ActorId]:
    return [message.data.child for message in seen if isinstance(message.data, ChildStart)]


def exit_messages(seen: list[Seen]) -> list[Exit]:
    return [message.data for message in seen if isinstance(message.data, Exit)]


def poll_until(loop: Loop, condition: Callable[[], object]) -> None:
    """Run ticks until a condition holds."""
    for _ in range(TURNS):
        if condition():
            return
        loop.poll_once()
    raise AssertionError(f"the condition never held: {loop.statistics()}")


class Stubborn:
    """An async behavior or init that counts its cancellations, and ends only when it is released."""

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
