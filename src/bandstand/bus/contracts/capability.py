"""Capabilities as classes: annotated methods are the schema.

    class Greeter(Capability):
        '''Says hello.'''

        outbound = Greeted

        def __init__(self) -> None:
            self.count = 0

        def greet(self, msg: Greet) -> Greeting:
            self.count += 1
            self.bus.emit(Greeted(name=msg.name))
            return Greeting(text=f"hello, {msg.name}")

The class says the same as a `Contract` written out: each method whose one parameter is annotated with a message class handles it, and
its return annotation is the reply.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, ParamSpec

from bandstand.bus.contracts.contract import RestartLimits
from bandstand.bus.ports import Elsewhere
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.bus.outlet import Outlet

__all__ = ("Capability", "Provision", "provide")

P = ParamSpec("P")


class Capability:
    """What to derive from. One object of the class is one incarnation: it is made at each start, and serves one message at a time.

    An exception that a handler raises ends the incarnation: its request is answered with `Sys.ActorCrash`, those that wait are
    handled by the next one. `raise Refused(...)` is an answer, and ends nothing; so is an exception of a class in `refuses`.
    """

    id: ClassVar[str] = ""
    """Its name on the bus; the class's own if empty."""
    # Any: a type, or a union of types.
    outbound: ClassVar[Any] = None
    """What it may say besides its replies: events, failures, and commands and queries to others, as a union."""
    policy: ClassVar[RestartLimits] = RestartLimits()
    """How often it is started again."""
    refuses: ClassVar[tuple[type[Exception], ...]] = ()
    """Exceptions that are refusals: a request whose handler raises one is answered with `Sys.Refused`, and the incarnation goes on."""
    mailbox_cap: ClassVar[int | None] = None
    """How many messages may wait for it; None for the node's default."""
    timeout_ms: ClassVar[int | None] = None
    """How long a request to it may take if the request itself does not say; None for the node's default."""

    bus: Outlet
    """Where to say something: `self.bus.emit(...)`, `self.bus.send(...)`, `await self.bus.ask(...)`. Not yet in `__init__`."""

    def on_start(self) -> Awaitable[None] | None:
        """Called once, before the first message, which waits for it. May be `async def`."""

    def on_stop(self) -> Awaitable[None] | None:
        """Called once at the end, however it comes, unless the incarnation is killed. May be `async def`."""


@dataclass(frozen=True, slots=True)
class Provision:
    """A class of capabilities, and how to make one."""

    kind: type[Capability]
    make: Callable[[], Capability]
    elsewhere: Elsewhere | None = None
    """Where it runs, if not on the node itself: see `bandstand.isolation`."""


def provide(kind: Callable[P, Capability], /, *args: P.args, **kwargs: P.kwargs) -> Provision:
    """A capability whose constructor takes arguments: `Node([provide(Greeter, greeting="hello")])`.

    Raises:
        BadContract: it is no class of capabilities.
    """
    if not (isinstance(kind, type) and issubclass(kind, Capability)):
        raise BadContract(f"{safe_repr(kind)} is no class that derives from Capability")  # pyright: ignore[reportUnknownArgumentType]  # any object
    return Provision(kind, partial(kind, *args, **kwargs))
