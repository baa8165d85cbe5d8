"""What is refused before anybody is subscribed."""

from __future__ import annotations

from inspect import signature
from types import UnionType
from typing import Any, Union, get_args, get_origin

from bandstand.errors import InvalidArgument
from bandstand.service import Tell
from bandstand.service.lowlevel import parts_of
from bandstand.topic.policy import Policy

__all__ = ("check_policy", "checked_classes", "checked_tell")

MOST_ROOM = 1 << 20


def checked_classes(kind: object, name: object) -> tuple[type, ...]:
    """The classes that events of a kind are of: of a union its members, of a generic class with its arguments the class.

    Raises:
        InvalidArgument: whether something is one of it cannot be told; or that is no name.
    """
    members: tuple[Any, ...] = get_args(kind) if get_origin(kind) in {Union, UnionType} else (kind,)
    classes = tuple(getattr(member, "__origin__", member) for member in members)
    try:
        for each in classes:
            isinstance(None, each)
    except TypeError:
        raise InvalidArgument(
            f"kind is {kind!r}: pass the class of the events, or a union of classes; of each, isinstance() must be able to tell"
        ) from None
    if not isinstance(name, str) or not name:
        raise InvalidArgument(f"name is {name!r}: pass a string that is not empty")
    return classes


def checked_tell(field: str, method: object) -> Tell[...]:
    """A one-way method of a handle that takes one argument.

    Raises:
        InvalidArgument: it is none.
    """
    if not isinstance(method, Tell):
        raise InvalidArgument(
            f"{field} is {method!r}: pass a one-way method of a handle, handle.on_event, or self.me.on_event inside an actor"
        )
    tell: Tell[...] = method
    try:
        signature(parts_of(tell)[2]).bind(None, None)
    except TypeError:
        raise InvalidArgument(f"{field} is {method!r}, which does not take one argument: the event") from None
    return tell


def check_policy(policy: object, room: object, key: object, needs: int) -> None:
    """Refuse a policy, a room or a key that make no sense together; `needs` is the least room.

    Raises:
        InvalidArgument: so it is.
    """
    if not isinstance(policy, Policy):
        raise InvalidArgument(f"policy is {policy!r}: pass a member of Policy")
    if type(room) is not int or not needs <= room <= MOST_ROOM:
        raise InvalidArgument(f"room is {room!r}: for {policy.name} pass an int from {needs} to {MOST_ROOM}")
    if key is not None and (policy is not Policy.CONFLATE or not callable(key)):
        raise InvalidArgument(f"key is {key!r}: pass a function of the event, and only with Policy.CONFLATE")
