"""The loop with typed actors: `bandstand.core.Loop`, and `spawn` for classes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, overload

from bandstand import core
from bandstand.actor.declaration import check_instance, check_is_behavior, checked_actor_class
from bandstand.actor.hot.asks import Asks
from bandstand.actor.hot.handle import attach
from bandstand.actor.hot.method import Method
from bandstand.actor.hot.porter import Porter
from bandstand.actor.hot.stage import Parcel, perform
from bandstand.actor.porter import Tracer, make_porter
from bandstand.actor.reentry import Reentry
from bandstand.actor.spawning import UNSET_MS, Options, Spawner, start_in_steps
from bandstand.actor.timers import DeferredCall
from bandstand.actor.waiting import WaitFor, Waits
from bandstand.core import ActorId, Behavior, Clock, Lane, LoopConfig, Overflow, Unhandled
from bandstand.core.lowlevel import check_open

if TYPE_CHECKING:
    from bandstand.actor.actor import Actor
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.interface import Implements

__all__ = ("AskStatistics", "Loop")

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface
P = ParamSpec("P")
State = TypeVar("State")

REJECT = Overflow.REJECT
# What a spawn is given that is given nothing.
NOBODY: Any = object()


@dataclass(frozen=True, slots=True)
class AskStatistics:
    """A snapshot of what became of a loop's asks.

    `asked == answered + failed + cancelled + expired + pending`.
    """

    asked: int
    """Asks that were accepted."""
    answered: int
    """Those that have their answer."""
    failed: int
    """Those that ended with an error: one that their handler answered with, or the end of their actor."""
    cancelled: int
    """Those that their askers took back."""
    expired: int
    """Those whose deadline has come."""
    late: int
    """Answers that came after that, and were dropped."""
    unhandled: int
    """Messages that were sent past a handle, to an actor that has no method for them, or to a machine whose state handles them not."""

    @property
    def pending(self) -> int:
        """Those that have not ended."""
        return self.asked - self.answered - self.failed - self.cancelled - self.expired


def _show(
    hook: Callable[..., None], target: ActorId, lane: Lane, data: object, tag: object, sender: object
) -> None:
    hook(target, lane, data.data if isinstance(data, Parcel) else data, tag, sender)


def _nothing_along(_context: object, _carried: object) -> None:
    """What travels along where a loop has its own way to pack."""


class Loop(core.Loop):
    """A single-threaded loop of actors, typed ones and raw ones.

    Args:
        config: its limits; None for the defaults.
        clock: where its time comes from; None for the machine's monotonic clock.
        carry_context: whether context variables that are set where a message is sent are seen where it is handled. Only what
            differs from the loop's own context travels.
    """

    def __init__(
        self, config: LoopConfig | None = None, *, clock: Clock | None = None, carry_context: bool = True
    ) -> None:
        super().__init__(config, clock=clock)
        self._asks = Asks()
        reentry = Reentry(self)
        self._asks.serve, self._asks.recall = reentry.serve, reentry.recall
        self._defaults = Options(self)
        self._tracer: Tracer | None = None
        self._carries = carry_context
        self._set_porter()

    @overload
    def spawn(self, kind: Callable[P, Implements[I]], /, *args: P.args, **kwargs: P.kwargs) -> I: ...
    @overload
    def spawn(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> A: ...
    @overload
    def spawn(
        self,
        behavior: Behavior[State],
        state: State = ...,
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        supervisor: ActorId | None = None,
        overflow: Overflow = Overflow.REJECT,
    ) -> ActorId: ...
    def spawn(self, kind: Any = NOBODY, /, *args: Any, **kwargs: Any) -> Any:  # type: ignore[misc]  # mypy cannot match *args with P.args
        """Make an actor of a class, with these arguments for its constructor, and start it; its handle.

        `options` is for a name and the like. A function instead of a class is a raw behavior, as for `bandstand.core.Loop`.

        Raises:
            StartFailed: its `on_start` has failed, and so it has ended.
            InvalidArgument, MaxActors, NoMemory, LoopClosed, WrongThread: as for a raw actor.
        """
        if isinstance(kind, type):
            return self._start(kind, args, kwargs, self._defaults)
        if hasattr(kind, "__origin__"):
            # A generic class with its arguments.
            return self._start(checked_actor_class(kind), args, kwargs, self._defaults)
        if kind is NOBODY:
            # A behavior may be named, as for a raw loop.
            check_is_behavior(kwargs.get("behavior"))
            return super().spawn(**kwargs)
        check_is_behavior(kind)
        return super().spawn(kind, *args, **kwargs)

    def _start(
        self, kind: Any, arguments: tuple[Any, ...], named: dict[str, Any], options: Options
    ) -> Handle:
        """Make an object of a class, and an actor of the object."""
        self._check_thread()
        if self._closed:
            check_open(self)
        is_plain = getattr(kind, "__actor_is_plain__", None)
        if is_plain is None:
            kind = checked_actor_class(kind)
        instance = kind(*arguments, **named)
        if not is_plain or options.parent is not None:
            check_instance(kind, instance)
            return start_in_steps(self, instance, options)
        # Nothing happens at its start: it is made in one step.
        policy = None if options.overflow is REJECT else options.overflow
        # In the log and in the tree, whoever has no name goes by the name of the class.
        name = options.name or kind.__name__
        told = options.told() if options.is_told else None
        actor = self._make(perform, instance, name, options.cap, policy, told, None)
        return attach(self, instance, actor, options.name, options.ask_ms)

    def options(
        self,
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_ms: float | None = UNSET_MS,
        supervisor: object = None,
    ) -> Spawner:
        """Options for a spawn, apart from the arguments of a constructor: `loop.options(name="a").spawn(Counter, 10)`.

        Args:
            name: for people: logs, errors, the tree. Need not be unique.
            mailbox_cap: slots of its mailbox; None or 0 for the loop's default.
            overflow: what a full lane does with one message more.
            ask_ms: how long asks of it wait, in milliseconds; None for ever. The class's own if nothing is said.
            supervisor: a handle, or an actor's id: whoever gets a `ChildExit` when it ends.

        Raises:
            InvalidArgument: one of them has no sense.
        """
        options = Options(
            self, name=name, mailbox_cap=mailbox_cap, overflow=overflow, ask_ms=ask_ms, supervisor=supervisor
        )
        return Spawner(self, options)

    def ask_statistics(self) -> AskStatistics:
        """A frozen snapshot of what became of asks. Loop thread only."""
        self._check_thread()
        return AskStatistics(**self._asks.books())

    def waits(self) -> Waits:
        """Who waits for whom at this moment, for what and since when: every actor that waits in its turn. Loop thread only.

        Asks from outside of all actors, and from work in the background, are not among them: nobody's turn waits for those.
        """
        self._check_thread()
        now = self._now_ms()
        names = {row[0]: row[1] for row in self._rows()}
        found: list[WaitFor] = []
        for asker, asker_name, reply in self._asks.edges():
            known: Any = reply
            target, name, what, asked_at = known.account()
            if asker is not None:
                shown = names.get(target) or name
                found.append(WaitFor(asker, asker_name, target, shown, what, max(0.0, now - asked_at / 1e6)))
        return Waits(tuple(found))

    def set_tracer(self, tracer: Tracer | None) -> None:
        """Have `tracer` called where messages of typed actors are sent, and where they are handled; None for nobody."""
        self._check_thread()
        self._tracer = tracer
        self._set_porter()

    def _set_hooks(
        self,
        on_start: Callable[..., Any] | None,
        on_stop: Callable[..., Any] | None,
        on_full: Callable[..., Any] | None,
        on_dead_letter: Callable[..., Any] | None,
        on_dropped: Callable[..., Any] | None,
    ) -> None:
        # Those that are shown messages see them as they were sent, without what travelled along.
        shown = [None if hook is None else partial(_show, hook) for hook in (on_dead_letter, on_dropped)]
        super()._set_hooks(on_start, on_stop, on_full, shown[0], shown[1])

    def _set_porter(self) -> None:
        self._porter = make_porter(self._home_context, self._tracer, carries=self._carries)

    def _set_packing(self, pack: Callable[[Handle, Method, object], object]) -> None:
        self._porter = Porter(self._home_context, False, None, _nothing_along, pack)  # noqa: FBT003  # by position in C

    def _what(self, data: object, tag: object) -> str:
        if isinstance(data, Parcel):
            data = data.data
        if isinstance(data, DeferredCall):
            return data.description
        return f"{tag.owner}.{tag.name}()" if isinstance(tag, Method) else super()._what(data, tag)

    def _mention_unhandled(self, _handle: Handle, data: object) -> None:
        """A message was sent past a handle."""
        # It is being handled at this moment: what is at hand is its actor's.
        _, actor, name, _ = self._at_hand()
        assert actor is not None
        self.events.tell(Unhandled(actor, name, data, self._what(data, 0)))
