"""What the tests of links play with: two ends on one event loop, and actors to talk to."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from bandstand.actor import Actor, ActorSystem, WhenDown, ask, tell
from bandstand.actor.dispatch import Method
from bandstand.actor.enums import REFUSED
from bandstand.actor.handle import Handle
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ActorId, Lane, LoopConfig, Overflow
from bandstand.errors import NoSuchActorError
from bandstand.pod.link import Link, Undelivered
from bandstand.testing import run_async

R = TypeVar("R")

# No test waits longer for what is to come at once.
SOON = 20.0

request_id: ContextVar[str] = ContextVar("request_id", default="none")
tenant: ContextVar[list[int]] = ContextVar("tenant")


class Sour(Exception):  # noqa: N818  # it is sour
    """An exception that its pickle does not lead back to."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")

    def __reduce__(self) -> Any:
        return (type(self), ())


class Stuck(Exception):  # noqa: N818  # it is stuck
    """An exception that cannot be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("no")


class Scribe(Actor):
    """Writes everything down, answers, waits, fails."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = 0
        self.cancelled = 0

    @tell
    def note(self, what: object) -> None:
        self.notes.append(what)

    @tell
    def pair(self, first: object, second: object = "b") -> None:
        self.notes.append((first, second))

    @tell(lane=Lane.MANAGEMENT)
    def manage(self, what: object) -> None:
        self.notes.append(what)

    @tell(lane=Lane.CONTROL)
    def command(self, what: object) -> None:
        self.notes.append(what)

    @tell
    async def slowly(self, what: object) -> None:
        self.begun += 1
        await self.gate.wait()
        self.notes.append(what)

    @tell
    def fail(self, why: str) -> None:
        raise ValueError(why)

    @ask
    def read(self) -> list[Any]:
        return self.notes

    @ask
    def echo(self, what: object) -> Any:
        return what

    @ask
    async def wait(self, what: object) -> object:
        self.begun += 1
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        self.notes.append(what)
        return what

    @ask(raises=(KeyError, Sour, Stuck))
    def refuse(self, how: str) -> None:
        if how == "sour":
            raise Sour("very", "sour")
        if how == "stuck":
            raise Stuck("fast")
        raise KeyError(how)

    @ask
    def break_down(self) -> None:
        raise ValueError("broken")

    @ask
    def context(self) -> tuple[str, object]:
        return request_id.get(), tenant.get(None)


@dataclass(frozen=True)
class Role:
    """What a link must know of a role of the other side."""

    kind: type[Any] = Scribe
    mailbox: int | None = None
    overflow: Overflow = Overflow.REJECT


class Spot:
    """The place of a stand-in: it is there, or it is not."""

    holds_messages = False

    def __init__(self, actor: ActorId) -> None:
        self._actor = actor

    def find(self) -> ActorId | None:
        return self._actor

    def refusal(self) -> NoSuchActorError:
        return NoSuchActorError("it was at the other end of a link")

    def hold(
        self, _handle: Handle, _method: Method, _data: object, _asked: ReplyCallback | None, _may_wait: bool
    ) -> int:
        return REFUSED

    def with_policy(self, _policy: WhenDown, _timeout_ms: float | None, /) -> Spot:
        return self

    def track(self, _handle: Handle, /) -> None:
        """Do nothing."""

    def reduce(self) -> tuple[Any, ...] | None:
        return None


@dataclass
class End:
    """One end of a link, with all that belongs to it."""

    loop: ActorSystem
    proxy_loop: ActorSystem
    ours: dict[str, Any]
    """Handles of the actors here, by role."""
    up: asyncio.Future[Mapping[str, ActorId]]
    downs: list[str] = field(default_factory=list[str])
    dead: list[Undelivered] = field(default_factory=list[Undelivered])
    link: Link = field(init=False)

    def open(
        self, sock: socket.socket, here: str, there: str, theirs: Mapping[str, Role], **more: Any
    ) -> None:
        ways: dict[str, Any] = {
            "find": self.ours.get,
            "on_up": self.up.set_result,
            "on_down": self.downs.append,
            "on_dead": self.dead.append,
            **more,
        }
        self.link = Link(
            sock, self.proxy_loop, here=here, there=there, theirs=theirs, carries=(request_id, tenant), **ways
        )

    @property
    def scribe(self) -> Any:
        """The object behind the handle of the scribe here."""
        return instance(self.ours["scribe"])

    async def handle(self, role: str = "scribe", kind: type[Any] = Scribe) -> Any:
        """A handle of an actor of the other side."""
        actor = (await soon(self.up))[role]
        return self.proxy_loop.handle_at(kind, cast("Any", Spot(actor)), actor=actor, name=role)

    def check_stats(self) -> None:
        stats = self.link.stats()
        assert stats.sent == stats.handled + stats.dead + stats.dropped + stats.in_doubt + stats.waiting


@asynccontextmanager
async def make_end(
    ours: Callable[[ActorSystem], dict[str, Any]] | None = None, **limits: Any
) -> AsyncGenerator[End]:
    """An end without a link."""
    async with ActorSystem(LoopConfig(**limits)) as loop, ActorSystem() as proxy_loop:
        up: asyncio.Future[Mapping[str, ActorId]] = asyncio.get_running_loop().create_future()
        end = End(loop, proxy_loop, {} if ours is None else ours(loop), up)
        try:
            yield end
        finally:
            if hasattr(end, "link"):
                end.link.close("the test is over")
                # The descriptor is let go in the next turn.
                await asyncio.sleep(0)
        if hasattr(end, "link"):
            assert len(end.downs) == 1
            end.check_stats()
            assert end.link.stats().waiting == 0


@asynccontextmanager
async def linked(
    role: Role | None = None, *, more: Mapping[str, Role] | None = None
) -> AsyncGenerator[tuple[End, End]]:
    """Two ends: the first sends, the second has a scribe, or whatever the roles say."""
    roles = {"scribe": role or Role(), **(more or {})}

    def spawn(loop: ActorSystem) -> dict[str, Any]:
        return {
            name: loop.options(name=name, mailbox=each.mailbox, overflow=each.overflow).spawn(each.kind)
            for name, each in roles.items()
        }

    a, b = socket.socketpair()
    async with make_end() as near, make_end(spawn) as far:
        far.open(b, "far", "near", {})
        near.open(a, "near", "far", roles)
        yield near, far


@asynccontextmanager
async def scribe_link(
    role: Role | None = None, *, more: Mapping[str, Role] | None = None
) -> AsyncGenerator[tuple[End, End, Any]]:
    """Two ends, and a handle of the scribe at the second one."""
    async with linked(role, more=more) as (near, far):
        yield near, far, await near.handle()


def instance(handle: Any) -> Any:
    """The object behind a local handle."""

    actor = handle.__actor_id__()
    return actor.home.loop.instance_of(actor)


async def soon(awaitable: Any) -> Any:
    """What is to come at once."""
    return await asyncio.wait_for(awaitable, SOON)


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop turn until something holds."""
    for _ in range(20_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came")


def play(main: Callable[[], Coroutine[Any, Any, R]]) -> R:
    """Run a coroutine function on the lane's event loop."""
    return run_async(main, loop_factory=host_factory())


def host_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """What makes the event loop of the lane."""
    if os.environ.get("BANDSTAND_TEST_LOOP") == "uvloop":
        import uvloop

        return uvloop.new_event_loop
    return asyncio.new_event_loop
