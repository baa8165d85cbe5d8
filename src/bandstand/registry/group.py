"""Groups: several actors of one class that share a name and receive messages together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, ParamSpec, TypeVar, cast, final

from bandstand.actor.declaration import handle_methods_of
from bandstand.actor.handle import checked_handle, class_of
from bandstand.actor.handle_watch import HandleWatch, watch_key
from bandstand.actor.interface import method_name_of
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.topic import Policy, Receives, Topic, TopicSubscription
from bandstand.topic.backlog import Lag

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem
    from bandstand.actor.decorators import DeclaredTell

__all__ = ("Change", "Group", "Told", "check_class")

A = TypeVar("A")
P = ParamSpec("P")

DEFAULT_ROOM = 64


@dataclass(frozen=True, slots=True)
class Change(Generic[A]):
    """An actor joined a group or left it. A member that ends leaves."""

    group: str
    """The name of the group."""
    member: A
    """The member's handle. After its end, the handle still identifies it."""
    has_joined: bool
    """True if the actor joined, False if it left."""


class Told(NamedTuple):
    """The result of sending to a group."""

    taken: int
    """How many members accepted the message."""
    refused: int
    """How many members had no room for the message or were ending."""


@final
class Member:
    """A member's entry in a group."""

    __slots__ = ("lag", "presence")

    def __init__(self, presence: HandleWatch) -> None:
        self.presence = presence
        # Created with the first message that the member refuses.
        self.lag: Lag | None = None


@final
class Group(Generic[A]):
    """Several actors of one class, created by `Registry.group`. Loop thread only.

    An actor is a member until it ends. A supervisor's child is a member as long as the supervisor keeps its slot; between two incarnations
    it is skipped.
    """

    __slots__ = ("_changes", "_kind", "_loop", "_members", "_name")

    def __init__(self, loop: ActorSystem, name: str, kind: type[Any]) -> None:
        self._loop = loop
        self._name = name
        self._kind = kind
        self._members: dict[object, Member] = {}
        # Created by the first `watch`.
        self._changes: Topic[Change[A]] | None = None

    @property
    def name(self) -> str:
        """The group's name."""
        return self._name

    @property
    def kind(self) -> type[Any]:
        """The class of the members."""
        return self._kind

    def join(self, member: A) -> bool:
        """Add an actor at the end of the group. Return False if it already is a member.

        Raises:
            InvalidArgumentError: it is not a handle, or its class is not the group's.
            NoSuchActorError, ActorNotLocalError: the actor has ended, or lives on another loop.
            LoopClosedError, WrongThreadError: the loop is stopping; called from another thread.
        """
        self._loop.kernel.check_open()
        handle = checked_handle(member)
        check_class(safe_repr(member), handle, self._kind)
        key = watch_key(handle)
        if key in self._members:
            return False
        self._members[key] = Member(HandleWatch(self._loop, handle, partial(self._remove, key)))
        self._announce(member, has_joined=True)
        return True

    def leave(self, member: A) -> bool:
        """Remove an actor. Return False if it is not a member or has ended.

        Raises:
            InvalidArgumentError: it is not a handle.
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        key = watch_key(checked_handle(member))
        if key not in self._members:
            return False
        self._remove(key)
        return True

    def members(self) -> tuple[A, ...]:
        """Return the members that accept messages now, in the order in which they joined.

        Raises:
            WrongThreadError: called from another thread.
        """
        self._loop.kernel.check_thread()
        return tuple(
            cast("A", one.presence.handle) for one in self._members.values() if one.presence.actor is not None
        )

    def tell(self, method: DeclaredTell[P], /, *args: P.args, **kwargs: P.kwargs) -> Told:
        """Send a message to every member that is running: `workers.tell(Worker.add, 5)`. Return how many took it and how many refused it.

        A member never makes this raise. When a member refuses, the loop's events get a `Lagged`: at once for the first, then at most once a
        second, with exact counts.

        Raises:
            InvalidArgumentError: the method is not a one-way method of the group's class.
            TypeError: the arguments do not fit the method.
            LoopClosedError, WrongThreadError: the loop is stopping; called from another thread.
        """
        self._loop.kernel.check_open()
        name = method_name_of(self._kind, method)
        handle_method = None if name is None else handle_methods_of(self._kind)[name]
        if name is None or handle_method is None or handle_method.method.is_ask:
            raise InvalidArgumentError(
                f"{safe_repr(method)} is not a one-way method of {self._kind.__qualname__}: pass the method of the class, Worker.add"
            )
        # Check the arguments once, before any member gets the message.
        handle_method.binder(None, *args, **kwargs)
        taken = refused = 0
        for one in list(self._members.values()):
            if one.presence.actor is None:
                continue
            if getattr(one.presence.handle, name).try_send(*args, **kwargs):
                taken += 1
            else:
                refused += 1
                self._lag_of(one).miss()
        return Told(taken, refused)

    def watch(
        self,
        method: Receives[Change[A]],
        *,
        policy: Policy = Policy.DROP_OLDEST,
        room: int = DEFAULT_ROOM,
    ) -> TopicSubscription[Change[A]]:
        """Send every later `Change` of the group to a one-way method of an actor.

        This subscribes the actor to a topic, with a room and a policy. `Topic.subscribe` lists what it raises.
        """
        if self._changes is None:
            self._changes = Topic(self._loop, cast("type[Change[A]]", Change), name=f"group {self._name}")
        return self._changes.subscribe(method, policy=policy, room=room)

    def __len__(self) -> int:
        return len(self.members())

    def __repr__(self) -> str:
        return f"<Group {self._name!r} of {self._kind.__qualname__}: {len(self._members)} members>"

    def _lag_of(self, one: Member) -> Lag:
        if one.lag is None:
            one.lag = Lag(self._loop, f"group {self._name}", repr(one.presence.handle))
        return one.lag

    def _remove(self, key: object) -> None:
        """Remove a member that leaves or has ended."""
        one = self._members.pop(key)
        one.presence.cancel()
        if one.lag is not None:
            one.lag.end()
        self._announce(cast("A", one.presence.handle), has_joined=False)

    def _announce(self, member: A, *, has_joined: bool) -> None:
        if self._changes is not None and not self._loop.kernel.is_closed:
            self._changes.publish(Change(self._name, member, has_joined))


def check_class(what: str, handle: object, kind: type) -> None:
    """Check that a handle's actor is of a class.

    Raises:
        InvalidArgumentError: it is of another class; the error names both.
    """
    known = class_of(handle)
    if not issubclass(known, kind):
        raise InvalidArgumentError(f"{what} is a {known.__qualname__}, not a {kind.__qualname__}")
