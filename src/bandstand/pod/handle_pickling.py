"""Handles in messages to other processes.

A handle belongs to its loop and cannot be copied. A handle of a role is pickled as a `HandleToken` instead: the deployment, the role,
its class, and what the handle does while the pod is down. The receiver makes a handle of its own from the token.

The sender checks the token before anything is written: a handle of another deployment, or of a role that the receiver cannot see, is
an error of the call. The receiver checks it again, so a token never resolves to another actor of the same name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final
from uuid import uuid4

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.when_down import WhenDown

__all__ = (
    "DeploymentId",
    "HandleCheck",
    "HandleResolver",
    "HandleToken",
    "pickling_handles",
    "reduce_handle",
    "resolve_handle",
    "resolving_handles",
)


@final
class DeploymentId:
    """Identifies one deployment: one troupe object. Two are equal if their tokens are, in any process.

    Attributes:
        token: unique for each troupe object.
        path: for display: the name of the outermost troupe, then the names of the nested ones.
    """

    __slots__ = ("path", "token")

    def __init__(self, path: str, token: str = "") -> None:
        self.path = path
        self.token = token or uuid4().hex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentId) and self.token == other.token

    def __hash__(self) -> int:
        return hash(self.token)

    def __repr__(self) -> str:
        return f"<troupe {safe_repr(self.path)}, {self.token}>"


class HandleToken(NamedTuple):
    """What is sent of a handle."""

    deployment: str
    """The token of the deployment."""
    path: str
    """The path of the deployment, for display."""
    role: str
    kind: type[Any]
    """The class of the actor."""
    when_down: WhenDown
    down_ms: float
    pod: str = ""
    """The pod of the role. For a replica that sends a handle of one of its own actors, the replica; then the handle means that one."""

    def __str__(self) -> str:
        return f"the handle of role {self.role!r} of troupe {safe_repr(self.path)}"


HandleResolver: TypeAlias = Callable[..., Any]
"""Returns a handle for the fields of a `HandleToken`. Raises `InvalidArgumentError` if the role cannot be seen here."""

HandleCheck: TypeAlias = Callable[[HandleToken, str | None], str | None]
"""Returns why a pod (None: the calling program) could not resolve a token; None if it can."""

# What this thread does at present: `resolver` while it reads a message, `check` and `pod` while it pickles one.
_current = threading.local()


def reduce_handle(token: HandleToken) -> tuple[Any, ...]:
    """Return what `pickle` needs to send a handle of a role.

    Raises:
        TypeError: no message is being pickled, or its receiver could not resolve the handle.
    """
    check: HandleCheck | None = getattr(_current, "check", None)
    if check is None:
        raise TypeError(f"{token} cannot be pickled or copied: only a message to a process pod can carry it")
    problem = check(token, _current.pod)
    if problem is not None:
        raise TypeError(f"{token} cannot be used by the receiver: {problem}")
    return (resolve_handle, tuple(token))


def resolve_handle(*fields: Any) -> Any:
    """Return a handle for the fields of a token, made by the pod that reads the message.

    Raises:
        InvalidArgumentError: no message is being read, or the pod cannot resolve the handle.
    """
    resolver: HandleResolver | None = getattr(_current, "resolver", None)
    if resolver is None:
        raise InvalidArgumentError(
            f"{HandleToken(*fields)} was unpickled outside of a message: only the pod that receives a message can read it"
        )
    return resolver(*fields)


@contextmanager
def resolving_handles(resolver: HandleResolver) -> Generator[None]:
    """Inside the block, unpickle handles on this thread with `resolver`."""
    before: HandleResolver | None = getattr(_current, "resolver", None)
    _current.resolver = resolver
    try:
        yield
    finally:
        _current.resolver = before


@final
class pickling_handles:  # noqa: N801  # used as a function, as those of contextlib are
    """Inside the block, let this thread pickle handles that a pod (None: the calling program) can resolve.

    Without a check, no handle can be pickled.
    """

    # A class and not a generator: it is used for every message that is pickled.
    __slots__ = ("_before", "_check", "_pod")

    def __init__(self, check: HandleCheck | None, pod: str | None) -> None:
        self._check = check
        self._pod = pod

    def __enter__(self) -> None:
        self._before = getattr(_current, "check", None), getattr(_current, "pod", None)
        _current.check, _current.pod = self._check, self._pod

    def __exit__(self, *_error: object) -> None:
        _current.check, _current.pod = self._before
