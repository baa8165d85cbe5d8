"""The registry: names for actors, each found by its class.

A name is a convenience, and must not be a trap: whoever looks one up gets an actor that is there, or hears that nobody is. That is
not a matter of being told of ends quickly enough. A look asks the actor itself, whose id is stale from the first step of its exit; being
told only tidies up. So a name is free before anybody can hear of the death: `Down`, `ChildExit`, `ended` and the observer all come later.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from bandstand.core.lowlevel import check_open, check_thread
from bandstand.errors import InvalidArgument, NameTaken, NoSuchName
from bandstand.registry.checks import check_class, check_name
from bandstand.registry.group import Group
from bandstand.registry.holder import Holder
from bandstand.registry.waiting import Waiting
from bandstand.service.lowlevel import check_ask_ms, checked_kind, checked_loop

if TYPE_CHECKING:
    from bandstand.service import Actor, Implements, Interface, Loop

__all__ = ("Registry",)

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface

DEFAULT_WAIT_MS = 5000


@final
class Registry:
    """Names and groups of a loop's actors. As many as one likes; a name is unique within each. Loop thread only.

    A name belongs to what the handle stands for. A handle of one actor: until it has ended, its `on_stop` included. A handle of a
    supervisor's child (`supervised`): as long as the supervisor keeps its place, over all restarts; while nobody is there, nobody is found. An
    incarnation that registers `self.me` in its `on_start` takes the name with it.

    Args:
        loop: the loop whose actors have names.

    Raises:
        InvalidArgument: it is no loop of typed actors.
        WrongThread: called off the loop's thread.
    """

    __slots__ = ("__weakref__", "_groups", "_holders", "_loop", "_waiting")

    def __init__(self, loop: Loop) -> None:
        self._loop = checked_loop(loop)
        check_thread(loop)
        self._holders: dict[str, Holder] = {}
        self._groups: dict[str, Group[Any]] = {}
        self._waiting = Waiting(loop)

    # -- names ---------------------------------------------------------------------------------------------------------------

    def register(self, name: str, handle: Interface, /) -> None:
        """Give an actor a name. To give it the name that it has is harmless; it may have several.

        Raises:
            NameTaken: somebody else has it; says who.
            InvalidArgument: the name is empty, or the handle is none: an actor without a class, known by its id, cannot have a name.
            NoSuchActor, ActorNotLocal: the actor has ended, or lives on another loop.
            LoopClosed, WrongThread: the loop was asked to stop; called off its thread.
        """
        check_open(self._loop)
        check_name("name", name)
        newcomer = Holder(self._loop, name, handle, self._vacate, self._waiting.wake)
        holder = self._holder(name)
        if holder is not None:
            newcomer.presence.cancel()
            if holder.presence.key == newcomer.presence.key:
                return
            raise NameTaken(
                f"{name!r} is the name of {holder.describe()}: {handle!r} needs another, or has to wait until it is free"
            )
        # It may be there still, of one that has ended and whose exit has not come to us.
        self._holders.pop(name, None)
        self._holders[name] = newcomer
        self._waiting.wake(name)

    def unregister(self, name: str, /) -> bool:
        """Take a name back; False if nobody has it.

        Raises:
            InvalidArgument: it is no name.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        check_name("name", name)
        holder = self._holder(name)
        if holder is None:
            return False
        holder.presence.cancel()
        del self._holders[name]
        return True

    @overload
    def find(self, name: str, kind: type[Implements[I]], /) -> I | None: ...
    @overload
    def find(self, name: str, kind: type[A], /) -> A | None: ...
    def find(self, name: str, kind: Any, /) -> Any:
        """Whoever accepts messages under a name at this moment; None if nobody does.

        Args:
            name: the name.
            kind: the class that is meant, or a base of it; a class that derives from `Implements[TheInterface]` gives the interface.

        Raises:
            InvalidArgument: it is of another class, and both are named; or it is no name.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        check_name("name", name)
        known = checked_kind(kind)
        holder = self._holder(name)
        if holder is None:
            return None
        check_class(f"{name!r}", holder.handle, known)
        return holder.handle if holder.is_there else None

    @overload
    def get(self, name: str, kind: type[Implements[I]], /) -> I: ...
    @overload
    def get(self, name: str, kind: type[A], /) -> A: ...
    def get(self, name: str, kind: Any, /) -> Any:
        """The same, for who cannot do without.

        Raises:
            NoSuchName: nobody is there; says why, and which names are like it.
            InvalidArgument, WrongThread: as for `find`.
        """
        found = self.find(name, kind)
        if found is None:
            holder = self._holder(name)
            if holder is not None:
                raise NoSuchName(f"{name!r} is the name of {holder.describe()}: use wait() to wait for it")
            close = get_close_matches(name, self._holders)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise NoSuchName(f"nobody has the name {name!r}{hint}")
        return found

    @overload
    async def wait(self, name: str, kind: type[Implements[I]], /, *, ms: float | None = ...) -> I: ...
    @overload
    async def wait(self, name: str, kind: type[A], /, *, ms: float | None = ...) -> A: ...
    async def wait(self, name: str, kind: Any, /, *, ms: float | None = DEFAULT_WAIT_MS) -> Any:
        """The same, and wait until somebody is there: the first to have the name, or the next incarnation.

        Args:
            name: the name.
            kind: the class that is meant.
            ms: how long, in milliseconds; None for as long as the loop lives.

        Raises:
            NameTimeout: nobody has come in time.
            LoopClosed: the loop has ended, or was asked to stop.
            InvalidArgument: whoever has the name is of another class.
            WrongThread: called off the loop's thread.
        """
        check_open(self._loop)
        check_name("name", name)
        check_ask_ms("ms", ms)
        return await self._waiting.until(name, lambda: self.find(name, kind), ms)

    def names(self) -> tuple[str, ...]:
        """The names that are taken, in the order in which they were; of some, nobody may be there just now.

        Raises:
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        return tuple(name for name, holder in self._holders.items() if not holder.is_gone)

    # -- groups --------------------------------------------------------------------------------------------------------------

    @overload
    def group(self, name: str, kind: type[Implements[I]], /) -> Group[I]: ...
    @overload
    def group(self, name: str, kind: type[A], /) -> Group[A]: ...
    def group(self, name: str, kind: Any, /) -> Any:
        """A group of actors of one class, by its name; the same one each time. Groups have names of their own, apart from those of actors.

        Raises:
            InvalidArgument: the name is empty, it is no class of actors, or the group is of another; both are named.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        check_name("name", name)
        known = checked_kind(kind)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(self._loop, name, known)
        elif group.kind is not known:
            raise InvalidArgument(
                f"group {name!r} is of {group.kind.__qualname__}, not of {known.__qualname__}"
            )
        return group

    def __repr__(self) -> str:
        return f"<Registry: {len(self._holders)} names, {len(self._groups)} groups>"

    def _holder(self, name: str) -> Holder | None:
        """Whoever has a name; not one who is gone, though we may not have been told yet."""
        holder = self._holders.get(name)
        return None if holder is None or holder.is_gone else holder

    def _vacate(self, holder: Holder) -> None:
        # Somebody else may have had the name before we were told.
        if self._holders.get(holder.name) is holder:
            del self._holders[holder.name]
