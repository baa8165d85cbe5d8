"""A group: several actors of one class under one name, to be told something together."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast, final

from bandstand.core.lowlevel import check_open, check_thread, is_open
from bandstand.errors import InvalidArgument
from bandstand.registry.checks import check_class
from bandstand.registry.news import Change, Told
from bandstand.service.lowlevel import Presence, checked_handle, key_of, name_of_mark, ports_of
from bandstand.topic import Policy, Receives, Topic, TopicSubscription
from bandstand.topic.lowlevel import Lag

if TYPE_CHECKING:
    from bandstand.service import Loop
    from bandstand.service.lowlevel import TellMark

__all__ = ("Group",)

A = TypeVar("A")
P = ParamSpec("P")

DEFAULT_ROOM = 64


@final
class Member:
    """One of a group: who it is, and what it could not take."""

    __slots__ = ("lag", "presence")

    def __init__(self, presence: Presence) -> None:
        self.presence = presence
        self.lag: Lag | None = None


@final
class Group(Generic[A]):
    """Several actors of one class. `Registry.group` makes it. Loop thread only.

    A member is an actor until it has ended, or a supervisor's child as long as its place is kept; while nobody is there behind a place, it
    is left out.
    """

    __slots__ = ("_changes", "_kind", "_loop", "_members", "_name")

    def __init__(self, loop: Loop, name: str, kind: type[Any]) -> None:
        self._loop = loop
        self._name = name
        self._kind = kind
        self._members: dict[object, Member] = {}
        # Made when somebody wants to know.
        self._changes: Topic[Change[A]] | None = None

    @property
    def name(self) -> str:
        """What it is called."""
        return self._name

    @property
    def kind(self) -> type[Any]:
        """The class of its members."""
        return self._kind

    def join(self, member: A) -> bool:
        """Take an actor in, as the last one; False if it is a member.

        Raises:
            InvalidArgument: it is no handle, or of another class than the group's.
            NoSuchActor, ActorNotLocal: it has ended, or lives on another loop.
            LoopClosed, WrongThread: the loop was asked to stop; called off its thread.
        """
        check_open(self._loop)
        handle = checked_handle(member)
        check_class(f"{member!r}", handle, self._kind)
        key = key_of(handle)
        if key in self._members:
            return False
        self._members[key] = Member(Presence(self._loop, handle, partial(self._part, key)))
        self._announce(member, has_joined=True)
        return True

    def leave(self, member: A) -> bool:
        """Let an actor go; False if it is no member, or has ended.

        Raises:
            InvalidArgument: it is no handle.
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        key = key_of(checked_handle(member))
        if key not in self._members:
            return False
        self._part(key)
        return True

    def members(self) -> tuple[A, ...]:
        """Those who are there, in the order in which they joined. Whoever does not accept messages at this moment is left out.

        Raises:
            WrongThread: called off the loop's thread.
        """
        check_thread(self._loop)
        return tuple(
            cast("A", one.presence.handle) for one in self._members.values() if one.presence.actor is not None
        )

    def tell(self, method: TellMark[P], /, *args: P.args, **kwargs: P.kwargs) -> Told:
        """Send a message to each who is there: `workers.tell(Worker.add, 5)`. How many took it, and how many had no room.

        It never raises because of a member. One that refuses is told of by a `Lagged` in the loop's events: at once, and then at most once a
        second, with exact numbers.

        Raises:
            InvalidArgument: it is no one-way method of the group's class.
            TypeError: these are not its arguments.
            LoopClosed, WrongThread: the loop was asked to stop; called off its thread.
        """
        check_open(self._loop)
        name = name_of_mark(self._kind, method)
        port = None if name is None else ports_of(self._kind)[name]
        if name is None or port is None or port.method.is_ask:
            raise InvalidArgument(
                f"{method!r} is no one-way method of {self._kind.__qualname__}: pass the method of the class, Worker.add"
            )
        # What is wrong with the arguments is told here, and before anybody has them.
        port.binder(None, *args, **kwargs)
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
        """Have an actor told of each who joins and leaves from now on, by one of its one-way methods.

        It is a subscription, with a room and a policy, as to a topic: `Topic.subscribe` says what it raises.
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

    def _part(self, key: object) -> None:
        """A member goes, or has ended."""
        one = self._members.pop(key)
        one.presence.cancel()
        if one.lag is not None:
            one.lag.end()
        self._announce(cast("A", one.presence.handle), has_joined=False)

    def _announce(self, member: A, *, has_joined: bool) -> None:
        if self._changes is not None and is_open(self._loop):
            self._changes.publish(Change(self._name, member, has_joined))
