"""Passports: how a handle travels in a message to another process.

A handle belongs to its loop and cannot be copied. A handle of a troupe's role is sent as a passport instead: which troupe object it
belongs to, which role, of which class, and what it does while its pod is down. The receiver makes a handle of its own from that.

The sender checks the passport before anything is written: a handle of another troupe object, or of a role that the receiver cannot
see, is an error of the call. The receiver checks it again, and never takes another actor of the same name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, final
from uuid import uuid4

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.pod.vocabulary import WhenDown

__all__ = (
    "HandleCheck",
    "Passport",
    "Resolver",
    "TroupeIdentity",
    "find_handle",
    "passport_of",
    "resolving",
    "sending",
)


@final
class TroupeIdentity:
    """Which troupe object something belongs to. Two are equal if their tokens are, in whichever process.

    Attributes:
        token: unique for each troupe object.
        path: for people: the name of the outermost troupe, and the names of the nested ones down to this.
    """

    __slots__ = ("path", "token")

    def __init__(self, path: str, token: str = "") -> None:
        self.path = path
        self.token = token or uuid4().hex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TroupeIdentity) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __repr__(self) -> str:
        return f"<troupe {safe_repr(self.path)}, {self.token}>"


class Passport(NamedTuple):
    """What is sent of a handle."""

    troupe: str
    """The token of the troupe object."""
    path: str
    """The same for people."""
    role: str
    kind: type[Any]
    """The class of the actor."""
    when_down: WhenDown
    down_ms: float

    def __str__(self) -> str:
        return f"the handle of role {self.role!r} of troupe {safe_repr(self.path)}"


Resolver: TypeAlias = Callable[..., Any]
"""Gives a handle for the fields of a passport. Raises if there is none here."""

HandleCheck: TypeAlias = Callable[[Passport, str | None], str | None]
"""Why a pod, or the program outside for None, could not resolve a passport; None if it can."""

# What this thread is doing at the moment: `resolver` while it reads a message, `check` and `pod` while it packs one.
_here = threading.local()


def passport_of(passport: Passport) -> tuple[Any, ...]:
    """How a handle of a role is sent, as `pickle` wants it.

    Raises:
        TypeError: no message is being packed, or its receiver could not resolve the handle.
    """
    check: HandleCheck | None = getattr(_here, "check", None)
    if check is None:
        raise TypeError(
            f"{passport} cannot be pickled or copied: only a message to a process pod can carry it"
        )
    why = check(passport, _here.pod)
    if why is not None:
        raise TypeError(f"{passport} means nothing there: {why}")
    return (find_handle, tuple(passport))


def find_handle(*passport: Any) -> Any:
    """A handle for the fields of a passport, made by the pod that reads it.

    Raises:
        InvalidArgument: no message is being read, or the pod that reads it cannot resolve the handle.
    """
    resolver: Resolver | None = getattr(_here, "resolver", None)
    if resolver is None:
        raise InvalidArgument(
            f"{Passport(*passport)} was unpickled outside of a message: only the pod that a message is sent to can read it"
        )
    return resolver(*passport)


@contextmanager
def resolving(resolver: Resolver) -> Generator[None]:
    """Have this thread, inside the block, find handles so."""
    before: Resolver | None = getattr(_here, "resolver", None)
    _here.resolver = resolver
    try:
        yield
    finally:
        _here.resolver = before


@final
class sending:  # noqa: N801  # used as a function, as contextlib's own are
    """Let this thread, inside the block, pickle handles that a pod, or the program outside for None, can resolve.

    Without a check, no handle can be pickled.
    """

    # A class and not a generator: every message that is pickled passes here.
    __slots__ = ("_before", "_check", "_pod")

    def __init__(self, check: HandleCheck | None, pod: str | None) -> None:
        self._check = check
        self._pod = pod

    def __enter__(self) -> None:
        self._before = getattr(_here, "check", None), getattr(_here, "pod", None)
        _here.check, _here.pod = self._check, self._pod

    def __exit__(self, *_error: object) -> None:
        _here.check, _here.pod = self._before
