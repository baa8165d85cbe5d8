"""What every actor has: hooks to override, and tools to use. `Actor` and `Implements` are what to derive from."""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextvars import copy_context
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    ParamSpec,
    Self,
    TypeVar,
    overload,
)

from bandstand.actor import outside
from bandstand.actor.background import Work
from bandstand.actor.brood import Brood
from bandstand.actor.declaration import Schema, read_class
from bandstand.actor.facade import NOTES, OURS, RESERVED, TOOLS, facade, refuse_hook
from bandstand.actor.faces import checked_ask_ms
from bandstand.actor.hot.handle import Handle, stop_at_once
from bandstand.actor.jobs import Job
from bandstand.actor.spawning import UNSET_MS, Options, Spawner
from bandstand.actor.timers import Alarm, Ticker
from bandstand.core import ChildExit, ChildStart, Down, Exit, ExitReason, IoEvent, Overflow
from bandstand.core.lowlevel import checked_cap, set_family, spawn_child
from bandstand.errors import BadDeclaration, ChildFailed, InvalidArgument, LoopBusy
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.interface import Implements
    from bandstand.core import ActorId

__all__ = ("DEFAULT_ASK_MS", "Actor", "Performer", "Signal")

A = TypeVar("A", bound="Actor")
I_co = TypeVar("I_co", covariant=True)
P = ParamSpec("P")
R = TypeVar("R")

Signal = ChildExit | ChildStart | Down | Exit | IoEvent
"""What the system tells an actor: see `Actor.on_signal`."""

DEFAULT_ASK_MS = 5000


class Performer:
    """What all classes of actors have. `Actor` and `Implements` are what to derive from."""

    __slots__ = ("_bs_brood", "_bs_me")

    _bs_schema: ClassVar[Schema]
    _bs_ask_ms: ClassVar[int] = DEFAULT_ASK_MS
    # Whether its actors can be made in one step; and whether they have something to do at their end.
    _bs_is_plain: ClassVar[bool]
    _bs_has_epilogue: ClassVar[bool] = False
    # Whether something of the house's own is to be done once it has started.
    _bs_has_prologue: ClassVar[bool] = False
    _bs_me: Any
    _bs_brood: Brood | None

    def __init_subclass__(cls, *, ask_ms: float | None = UNSET_MS, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__ not in OURS:
            # A class that was read already and is made once more (`@dataclass(slots=True)` does) has what we noted.
            noted = NOTES if isinstance(vars(cls).get("_bs_schema"), Schema) else frozenset[str]()
            names = vars(cls).keys() - noted
            taken = sorted(name for name in names if name in TOOLS or name.startswith("_bs_"))
            if taken:
                raise BadDeclaration(
                    f"{cls.__qualname__}.{taken[0]} is a name that every actor has for its own: choose another"
                )
        if ask_ms != UNSET_MS:
            cls._bs_ask_ms = checked_ask_ms(f"class {cls.__qualname__}: ask_ms", ask_ms)
        cls._bs_declare()

    @classmethod
    def _bs_declare(cls) -> None:
        """Read the class. The kinds of actors say how."""

    @classmethod
    def _bs_adopt_schema(cls, schema: Schema) -> None:
        """Note what was read."""
        cls._bs_schema = schema
        hooks = [
            getattr(cls, hook) is not getattr(Performer, hook)
            for hook in ("on_start", "on_stop", "on_signal")
        ]
        for hook, takes in (("on_start", 0), ("on_stop", 2), ("on_signal", 1), ("on_park", 0)):
            refuse_hook(cls, hook, takes)
        ports = (*schema.ports.values(), *schema.messages.values())
        # Made as all objects are, without hooks, and without coroutines that need a context to start from: then there is
        # nothing to do or to check at its start.
        is_made_plainly = cls.__new__ is object.__new__ and type(cls).__call__ is type.__call__
        cls._bs_is_plain = (
            is_made_plainly and not any(hooks) and not any(port.method.awaits for port in ports)
        )
        cls._bs_has_epilogue = hooks[1]

    # -- what to override --------------------------------------------------------------------------------------------------

    def on_start(self) -> Any:
        """Called once, before the first message; may be `async def`. Here `self.me` exists, which in `__init__` it does not.

        Messages wait until it has ended. If it fails the actor ends, for that reason; `on_stop` is not called then.
        Under a supervisor it may raise `IgnoreChild`, here or in `__init__`: the supervisor goes on without this child.
        """

    def on_stop(self, reason: ExitReason, cause: BaseException | None, /) -> Any:
        """Called once, when the actor ends, however it does, unless it is killed; may be `async def`.

        It accepts nothing any more. What this raises is logged, and changes nothing.
        """

    def on_park(self) -> None:
        """Called in a pod after each round in which its actors have handled what there was, before it waits for more."""

    def on_signal(self, signal: Signal, /) -> Any:
        """Called with what the system tells the actor, before all messages of users; may be `async def`.

        A `ChildExit` of a child that it has started, a `Down` of an actor it monitors, an `Exit` of one it is linked with,
        an `IoEvent` of a descriptor it watches. If it is not overridden, a child that ends abnormally takes its parent along:
        errors do not pass silently.

        Raises:
            ChildFailed: a child has ended abnormally.
        """
        if isinstance(signal, ChildExit) and signal.reason is not ExitReason.NORMAL:
            raise ChildFailed(
                f"child {signal.child!r} of {self._bs_me!r} has ended with reason {signal.reason.name}; override on_signal() to decide "
                f"what that means, or start it under a supervisor"
            ) from signal.cause

    # -- what it can do ----------------------------------------------------------------------------------------------------

    @property
    def me(self) -> Self:
        """The actor's own handle, to give to others, or to send itself a message.

        Raises:
            LoopBusy: the object is not running as an actor, or not yet: in `__init__` it is not.
        """
        me: Self = self._bs_handle()
        return me

    def _bs_handle(self) -> Any:
        try:
            return self._bs_me
        except AttributeError:
            raise LoopBusy(
                f"this {type(self).__qualname__} is not running as an actor: it has a handle from on_start() on"
            ) from None

    def __actor_id__(self) -> ActorId:
        """The id of the actor, for what takes any kind of actor: `Scope.adopt` for one."""
        return outside.id_of(self._bs_handle())

    def stop(self, *, drain: bool = False) -> None:
        """End with reason `NORMAL`: inside, when the present handler has ended; on a handle, from any thread, at once.

        A handler that is suspended, also the caller itself, is cancelled where it waits, or at its next await.
        Nothing is drained: what waits becomes dead letters, and asks among it are answered with `TargetEnded`. With `drain`
        it first handles what waits, and accepts nothing new from now on, not even from itself; work in the background is not
        waited for. If it has ended already, nothing
        happens. An actor
        under a supervisor is started again if its mode says so.
        """
        me = self._bs_handle()
        # By far the most common way: an actor that has done its work, and says so itself.
        if drain or not stop_at_once(me):
            outside.stop(me, drain=drain)

    def kill(self) -> None:
        """End without waiting for anything, with reason `FAIL`: a coroutine in flight is cancelled, `on_stop` is not called."""
        outside.kill(self._bs_handle())

    @property
    def ended(self) -> outside.End:
        """`await handle.ended()` waits until the actor has ended, and gives the reason. Also `blocking` and `future`."""
        raise LoopBusy("an actor cannot wait for its own end")

    def after(self, ms: float, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Alarm:
        """Have `method(*args)` called in `ms` milliseconds, as a message: by a marked method's own lane, else by DATA.

        Never early. It goes with the actor, and `cancel()` takes it back.
        """
        alarm = Alarm(self._bs_handle()._bs_loop, self._bs_me._bs_actor)
        alarm._begin(self._bs_schema, ms, Job(method, args, kwargs))
        return alarm

    def every(self, ms: float, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Ticker:
        """Have `method(*args)` called every `ms` milliseconds, at a fixed rate; what an actor misses that lags is left out."""
        loop = self._bs_handle()._bs_loop
        return Ticker(loop, self._bs_me._bs_actor, self._bs_schema, ms, method, args, kwargs, is_rate=True)

    def every_after(
        self, ms: float, method: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs
    ) -> Ticker:
        """Have `method(*args)` called again and again, each time `ms` milliseconds after the last one has ended."""
        loop = self._bs_handle()._bs_loop
        return Ticker(loop, self._bs_me._bs_actor, self._bs_schema, ms, method, args, kwargs, is_rate=False)

    def background(
        self,
        work: Awaitable[R],
        then: Callable[[R], Any] | None = None,
        failed: Callable[[Exception], Any] | None = None,
    ) -> Work:
        """Do something beside the messages: a coroutine, a reply, `asyncio.to_thread(...)`.

        When it has ended, `then(result)` is called as a message of this actor; if it raises, `failed(error)` is, and without
        a `failed` the actor fails with that error. It is cancelled when the actor ends; a thread cannot be, but its result is
        dropped then.
        """
        me: Handle = self._bs_handle()
        if not hasattr(work, "__await__"):
            raise InvalidArgument(
                f"work is {safe_repr(work)}, which cannot be awaited: pass a coroutine, self.fetch(), not self.fetch"
            )
        piece = Work(outside.loop_of(me), me, self._bs_schema, work, then, failed)
        loop = outside.loop_of(me)
        name = f"background {getattr(work, '__qualname__', type(work).__name__)}"
        try:
            child = spawn_child(
                loop,
                _idle,
                piece.begin,
                name=name,
                cap=checked_cap(loop, None),
                supervisor=me._bs_actor,
                context=copy_context(),
            )
        except BaseException:  # there is no room, or it is ending: then it never begins
            piece.abandon()
            raise
        self._bs_adopt(child, name)
        self._bs_family().silence(child)
        return piece

    def _bs_adopt(self, child: ActorId, name: str) -> None:
        """Note that a child has been started: it ends with us."""
        self._bs_family().add(child, name)

    def _bs_family(self) -> Brood:
        brood = self._bs_brood
        if brood is None:
            brood = Brood()
            object.__setattr__(self, "_bs_brood", brood)
            set_family(self._bs_me._bs_loop, self._bs_me._bs_actor, brood)
        return brood

    @overload
    def spawn(self, kind: Callable[P, Implements[I_co]], /, *args: P.args, **kwargs: P.kwargs) -> I_co: ...
    @overload
    def spawn(self, kind: Callable[P, A], /, *args: P.args, **kwargs: P.kwargs) -> A: ...
    def spawn(self, kind: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Start a child, which ends with this actor: `self.spawn(Worker, 3)`, as `Loop.spawn`. Its end is a signal."""
        # Not self.options: a field of the user's may have that name.
        return Performer.options(self).spawn(kind, *args, **kwargs)

    def options(
        self,
        *,
        name: str | None = None,
        mailbox_cap: int | None = None,
        overflow: Overflow = Overflow.REJECT,
        ask_ms: float | None = UNSET_MS,
    ) -> Spawner:
        """Options for a child: `self.options(name="w").spawn(Worker, 3)`, as `Loop.options`."""
        loop = self._bs_handle()._bs_loop
        options = Options(
            loop, name=name, mailbox_cap=mailbox_cap, overflow=overflow, ask_ms=ask_ms, parent=self
        )
        return Spawner(loop, options)

    # -- what the stage asks of it -----------------------------------------------------------------------------------------

    def _bs_prologue(self) -> None:
        """What some kinds of actors do once `on_start` has ended, as part of the start."""

    def _bs_handle_other(self, data: Any, is_signal: bool) -> Any:
        """Handle what is no message of a method: a signal, or something that was sent past the handle."""
        if not is_signal:
            self._bs_me._bs_asks.unhandled += 1
            self._bs_me._bs_loop._mention_unhandled(self._bs_me, data)
            return None
        if isinstance(data, ChildExit):
            if self._bs_brood is not None and not self._bs_brood.note_end(data.child):
                return None
        elif isinstance(data, ChildStart):
            return None
        return self.on_signal(data)


class Actor(Performer):
    """Derive from this, and mark the methods that are messages: `@data`, `@control`, `@management`, `@ask`.

    `class Slow(Actor, ask_ms=30_000)` gives asks of it another deadline than 5 s; None for none.

    Raises:
        BadDeclaration: when a class is made that contradicts itself.
    """

    @classmethod
    def _bs_declare(cls) -> None:
        cls._bs_adopt_schema(read_class(cls, RESERVED, facade(cls)))


def _idle(_ctx: Any, _data: Any) -> None:
    """The behavior of what has only an init."""
