"""How a pool is made: its settings, checked, apart from the arguments of a worker's constructor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, final, overload

from bandstand.core import ActorId
from bandstand.errors import InvalidArgument
from bandstand.pool.pool import Pool, checked_size
from bandstand.pool.vocabulary import ByKey, OnDeath, Routing
from bandstand.service import child, id_of
from bandstand.service.lowlevel import UNSET_MS, check_ask_ms, checked_kind, checked_loop
from bandstand.supervise import Backoff, Mailbox, Shutdown
from bandstand.supervise.lowlevel import check_member

if TYPE_CHECKING:
    from bandstand.service import Actor, Implements, Loop

__all__ = ("PoolOptions", "Settings", "pooled")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")

# Of messages that a worker has, and of tries.
MOST = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of a pool."""

    size: int
    routing: Routing | ByKey
    ahead: int
    on_death: OnDeath
    max_tries: int
    name: str | None
    mailbox_cap: int | None
    ask_ms: float | None
    intensity: int
    period_ms: float
    backoff: Backoff | None
    shutdown: float | Shutdown | None
    supervisor: ActorId | None

    def __post_init__(self) -> None:
        checked_size(self.size)
        if not isinstance(self.routing, Routing | ByKey):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(
                f"routing is {self.routing!r}: pass a member of Routing, or ByKey(function)"
            )
        check_member("a pool", "on_death", self.on_death, OnDeath)
        for field, value in (("ahead", self.ahead), ("max_tries", self.max_tries)):
            if type(value) is not int or not 1 <= value <= MOST:
                raise InvalidArgument(f"{field} is {value!r}: pass an int from 1 to {MOST}")
        if self.on_death is OnDeath.REQUEUE_ALL and self.ahead > 1:
            raise InvalidArgument(
                f"ahead is {self.ahead} and on_death is REQUEUE_ALL: what goes back would come after what the worker has behind it. Leave "
                f"ahead at 1, or choose REQUEUE_WAITING."
            )
        check_ask_ms("ask_ms", self.ask_ms)


@final
class PoolOptions:
    """Makes pools with these settings. `pooled` gives it."""

    __slots__ = ("_loop", "_settings")

    def __init__(self, loop: Loop, settings: Settings) -> None:
        self._loop = loop
        self._settings = settings

    @overload
    def spawn(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> Pool[I]: ...
    @overload
    def spawn(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> Pool[A]: ...
    def spawn(self, kind: Any, /, *args: Any, **kwargs: Any) -> Pool[Any]:
        """Start a pool of workers of a class, each made of these arguments, at every restart anew.

        Raises:
            StartFailed: a worker did not start: its constructor or its `on_start` has failed. Then there is no pool.
            InvalidArgument: it is no class of actors, or a setting has no sense.
            MaxActors, NoMemory, LoopClosed, WrongThread: as for a spawn of the loop's own.
        """
        settings = self._settings
        mailbox = Mailbox.FRESH if settings.on_death is OnDeath.DEAD_LETTER else Mailbox.KEPT
        known = checked_kind(kind)
        options = child(
            settings.name or known.__name__,
            mailbox=mailbox,
            backoff=settings.backoff,
            shutdown=settings.shutdown,
        )
        return Pool(self._loop, known, options.of(kind, *args, **kwargs), settings)


def pooled(
    loop: Loop,
    size: int = 4,
    *,
    routing: Routing | ByKey = Routing.ROUND_ROBIN,
    ahead: int = 1,
    on_death: OnDeath = OnDeath.REQUEUE_WAITING,
    max_tries: int = 3,
    name: str | None = None,
    mailbox_cap: int | None = None,
    ask_ms: float | None = UNSET_MS,
    intensity: int = 3,
    period_ms: float = 5000,
    backoff: Backoff | None = None,
    shutdown: float | Shutdown | None = None,
    supervisor: object = None,
) -> PoolOptions:
    """A pool of supervised workers behind one handle: `pooled(loop, 8).spawn(Renderer, quality=3).handle.render(page)`.

    Args:
        loop: where its workers live.
        size: how many there are; `Pool.resize` changes it.
        routing: which of them gets a message.
        ahead: how many messages a worker may have at one time, the one at hand included. With one, nothing waits behind a slow
            message while another worker is free; with more, methods that take a list get more at once.
        on_death: what becomes of the messages of a worker that dies.
        max_tries: how many workers may die at one message before it is a dead letter, with `OnDeath.REQUEUE_ALL`.
        name: for people; its workers are called by it, with a number.
        mailbox_cap: slots of the pool's mailbox. It bounds all that the pool has, what its workers have included.
        ask_ms: how long asks wait, in milliseconds; None for ever. The class's own if nothing is said.
        intensity: how many restarts, of all workers together, are allowed within `period_ms`. One more ends the pool.
        period_ms: the time in which restarts are counted.
        backoff: how long to wait before a worker is started again.
        shutdown: how long a worker has to end, as for `ChildSpec`.
        supervisor: a handle, or an actor's id: whoever gets a `ChildExit` when the pool ends. Without one, a pool that gives up is reported in the log.

    Raises:
        InvalidArgument: one of them has no sense.
    """
    settings = Settings(
        size=size,
        routing=routing,
        ahead=ahead,
        on_death=on_death,
        max_tries=max_tries,
        name=name,
        mailbox_cap=mailbox_cap,
        ask_ms=ask_ms,
        intensity=intensity,
        period_ms=period_ms,
        backoff=backoff,
        shutdown=shutdown,
        supervisor=supervisor if supervisor is None or isinstance(supervisor, ActorId) else id_of(supervisor),
    )
    return PoolOptions(checked_loop(loop), settings)
