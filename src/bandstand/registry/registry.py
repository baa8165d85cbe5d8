"""The registry: unique names for actors, looked up by name and class.

A lookup returns an actor that is running, or reports that there is none. It does not depend on how quickly an exit is noticed: each lookup
asks the actor itself, whose id is stale from the first step of its exit, and exit callbacks only clean up. So a name is free before `Down`,
`ChildExit`, `ended` or the observer report the exit.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, TypeVar, final, overload

from bandstand.actor.declaration import checked_actor_class, checked_actor_loop
from bandstand.actor.handle_watch import HandleWatch
from bandstand.errors import (
    ChannelClosedError,
    ChannelTimeoutError,
    InvalidArgumentError,
    LoopClosedError,
    NameTakenError,
    NameTimeoutError,
    NoSuchNameError,
)
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds, to_ms
from bandstand.registry.group import Group, check_class
from bandstand.scope import CONFLATED, Channel

if TYPE_CHECKING:
    from bandstand.actor import Actor, ActorSystem, Implements, Interface

__all__ = ("Registry",)

A = TypeVar("A", bound="Actor")
I = TypeVar("I")  # noqa: E741  # I for interface

DEFAULT_WAIT_TIMEOUT = 5.0


@final
class NameEntry:
    """A name and the actor or supervised child that has it."""

    __slots__ = ("_on_available", "_on_gone", "name", "presence")

    def __init__(
        self,
        loop: ActorSystem,
        name: str,
        handle: object,
        on_gone: Callable[[NameEntry], object],
        on_available: Callable[[str], object],
    ) -> None:
        self.name = name
        self._on_gone = on_gone
        self._on_available = on_available
        self.presence = HandleWatch(loop, handle, self._gone, self._came)

    @property
    def handle(self) -> Any:
        """The handle that was registered."""
        return self.presence.handle

    @property
    def is_available(self) -> bool:
        """Whether an actor accepts messages behind the handle now."""
        return self.presence.actor is not None

    @property
    def is_gone(self) -> bool:
        """Whether the actor has ended and no incarnation follows: then the name is free."""
        return self.presence.is_gone

    def describe(self) -> str:
        """Describe the holder of the name for an error."""
        state = "" if self.is_available else ", which is down or ending"
        return f"{self.handle!r}{state}"

    def _gone(self) -> None:
        self._on_gone(self)

    def _came(self) -> None:
        if self.is_available:
            self._on_available(self.name)


@final
class NameWaiters:
    """The callers of `Registry.wait`, by name. Loop thread only."""

    __slots__ = ("_loop", "_signals")

    def __init__(self, loop: ActorSystem) -> None:
        self._loop = loop
        # For each name the channels of its waiters; a dict keeps their order.
        self._signals: dict[str, dict[Channel[None], None]] = {}

    def wake(self, name: str) -> None:
        """Wake the waiters of a name: it may be available now."""
        for signal in self._signals.get(name, ()):
            signal.try_send(None)

    async def until(self, name: str, find: Callable[[], Any], ms: float | None) -> Any:
        """Wait until `find` returns something other than None. It runs once at first and again after each wake; its exceptions propagate.

        Raises:
            NameTimeoutError: the time is up.
            LoopClosedError: the loop has ended.
        """
        now = self._loop.kernel.timers.elapsed_ms
        since = now()
        with self._registered(name) as signal:
            while (found := find()) is None:
                left = None if ms is None else max(0.0, since + ms - now())
                try:
                    await signal.receive(timeout=None if left is None else left / 1000)
                except ChannelTimeoutError:
                    raise NameTimeoutError(
                        f"no actor registered the name {name!r} within {ms:.15g} ms"
                    ) from None
                except ChannelClosedError:
                    raise LoopClosedError(
                        f"the loop ended while waiting for an actor with the name {name!r}"
                    ) from None
        return found

    @contextmanager
    def _registered(self, name: str) -> Generator[Channel[None]]:
        signal: Channel[None] = Channel(CONFLATED)
        self._signals.setdefault(name, {})[signal] = None
        forget = self._loop.runner.on_end(signal.close)
        try:
            yield signal
        finally:
            forget()
            signals = self._signals[name]
            del signals[signal]
            if not signals:
                del self._signals[name]


@final
class Registry:
    """Names and groups of a loop's actors. A name is unique within one registry; a loop may have several registries. Loop thread only.

    A name belongs to what the handle refers to. If that is one actor, the actor has the name until it has ended, `on_stop` included. If it is
    a supervisor's child (`supervised`), the child has the name as long as the supervisor keeps its slot, over all restarts; between two
    incarnations a lookup finds nothing. An incarnation that registers `self.me` in its `on_start` loses the name when it ends.

    Args:
        loop: the loop of the actors.

    Raises:
        InvalidArgumentError: it is not a loop of typed actors.
        WrongThreadError: called from another thread.
    """

    __slots__ = ("__weakref__", "_entries", "_groups", "_loop", "_waiters")

    def __init__(self, loop: ActorSystem) -> None:
        self._loop = checked_actor_loop(loop)
        loop.kernel.check_thread()
        self._entries: dict[str, NameEntry] = {}
        self._groups: dict[str, Group[Any]] = {}
        self._waiters = NameWaiters(loop)

    # -- names ---------------------------------------------------------------------------------------------------------------

    def register(self, name: str, handle: Interface, /) -> None:
        """Give an actor a name. An actor may have several names; registering one that it has already does nothing.

        Raises:
            NameTakenError: another actor has the name; the error says which.
            InvalidArgumentError: the name is empty, or the handle is not one: an actor that is known by its id only cannot have a name.
            NoSuchActorError, ActorNotLocalError: the actor has ended, or lives on another loop.
            LoopClosedError, WrongThreadError: the loop is stopping; called from another thread.
        """
        self._loop.kernel.check_open()
        check_name(name)
        entry = NameEntry(self._loop, name, handle, self._remove, self._waiters.wake)
        present = self._entry(name)
        if present is not None:
            entry.presence.cancel()
            if present.presence.key == entry.presence.key:
                return
            raise NameTakenError(
                f"{name!r} is the name of {present.describe()}: give {safe_repr(handle)} another name, or wait until this one is free"
            )
        # An entry of an actor that has ended may remain until its exit callback runs.
        self._entries.pop(name, None)
        self._entries[name] = entry
        self._waiters.wake(name)

    def unregister(self, name: str, /) -> bool:
        """Free a name. Return False if no actor has it.

        Raises:
            InvalidArgumentError: it is not a name.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        check_name(name)
        entry = self._entry(name)
        if entry is None:
            return False
        entry.presence.cancel()
        del self._entries[name]
        return True

    @overload
    def find(self, name: str, kind: type[Implements[I]], /) -> I | None: ...
    @overload
    def find(self, name: str, kind: type[A], /) -> A | None: ...
    def find(self, name: str, kind: Any, /) -> Any:
        """Return the actor that accepts messages under a name now, or None.

        Args:
            name: the name.
            kind: the expected class, or a base of it; a class that derives from `Implements[TheInterface]` gives the interface.

        Raises:
            InvalidArgumentError: the actor is of another class (the error names both), or it is not a name.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        check_name(name)
        known = checked_actor_class(kind)
        entry = self._entry(name)
        if entry is None:
            return None
        check_class(f"{name!r}", entry.handle, known)
        return entry.handle if entry.is_available else None

    @overload
    def get(self, name: str, kind: type[Implements[I]], /) -> I: ...
    @overload
    def get(self, name: str, kind: type[A], /) -> A: ...
    def get(self, name: str, kind: Any, /) -> Any:
        """Return the actor that accepts messages under a name now.

        Raises:
            NoSuchNameError: there is none; the error says why and lists similar names.
            InvalidArgumentError, WrongThreadError: as for `find`.
        """
        found = self.find(name, kind)
        if found is None:
            entry = self._entry(name)
            if entry is not None:
                raise NoSuchNameError(
                    f"{name!r} is the name of {entry.describe()}: use wait() to wait for it"
                )
            close = get_close_matches(name, self._entries)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise NoSuchNameError(f"no actor has the name {name!r}{hint}")
        return found

    @overload
    async def wait(self, name: str, kind: type[Implements[I]], /, *, timeout: Seconds | None = ...) -> I: ...
    @overload
    async def wait(self, name: str, kind: type[A], /, *, timeout: Seconds | None = ...) -> A: ...
    async def wait(self, name: str, kind: Any, /, *, timeout: Seconds | None = DEFAULT_WAIT_TIMEOUT) -> Any:
        """Wait until an actor accepts messages under a name, and return it.

        Args:
            name: the name.
            kind: the expected class.
            timeout: how long to wait at most; None waits as long as the loop runs.

        Raises:
            NameTimeoutError: the time is up.
            LoopClosedError: the loop has ended or is stopping.
            InvalidArgumentError: the actor with that name is of another class.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_open()
        check_name(name)
        ms = None if timeout is None else to_ms("timeout", timeout, otherwise=", or None for no limit")
        return await self._waiters.until(name, lambda: self.find(name, kind), ms)

    def names(self) -> tuple[str, ...]:
        """Return the names that are taken, in the order of registration, including those of children between two incarnations.

        Raises:
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        return tuple(name for name, entry in self._entries.items() if not entry.is_gone)

    # -- groups --------------------------------------------------------------------------------------------------------------

    @overload
    def group(self, name: str, kind: type[Implements[I]], /) -> Group[I]: ...
    @overload
    def group(self, name: str, kind: type[A], /) -> Group[A]: ...
    def group(self, name: str, kind: Any, /) -> Any:
        """Return the group of that name, creating it at the first call. Names of groups are independent of names of actors.

        Raises:
            InvalidArgumentError: the name is empty, `kind` is not a class of actors, or the group is of another class; the error names both.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        check_name(name)
        known = checked_actor_class(kind)
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = Group(self._loop, name, known)
        elif group.kind is not known:
            raise InvalidArgumentError(
                f"group {name!r} is of {group.kind.__qualname__}, not of {known.__qualname__}"
            )
        return group

    def __repr__(self) -> str:
        return f"<Registry: {len(self._entries)} names, {len(self._groups)} groups>"

    def _entry(self, name: str) -> NameEntry | None:
        """Return the entry of a name, unless its actor is gone and only the exit callback is outstanding."""
        entry = self._entries.get(name)
        return None if entry is None or entry.is_gone else entry

    def _remove(self, entry: NameEntry) -> None:
        # Another actor may have taken the name before this exit callback ran.
        if self._entries.get(entry.name) is entry:
            del self._entries[entry.name]


def check_name(name: object) -> None:
    """Check that something is a name.

    Raises:
        InvalidArgumentError: it is not a string, or it is empty.
    """
    if not isinstance(name, str) or not name:
        raise InvalidArgumentError(f"name is {safe_repr(name)}: pass a string that is not empty")
