"""Passports: how a handle goes along in a message to another process.

A handle belongs to its loop and cannot be copied. But one of a troupe's role has a name that means the same in every pod that sees
the role. So what is pickled is the name, and what is unpickled is a handle that the reading pod has of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

from bandstand.errors import InvalidArgument
from bandstand.pod.vocabulary import WhenDown

__all__ = ("Resolver", "find_handle", "passport_of", "resolving")

Resolver = Callable[[str, WhenDown, float], Any]
"""Gives a handle of a role, of this name, that waits like this when its pod is down. Which class of handle, only the name says."""

_reading = threading.local()


def passport_of(role: str, when_down: WhenDown, down_ms: float) -> tuple[Any, ...]:
    """How a handle of a role is found elsewhere, as `pickle` wants it."""
    return (find_handle, (role, when_down, down_ms))


def find_handle(role: str, when_down: WhenDown, down_ms: float) -> Any:
    """A handle of a role, for whoever is reading it.

    Raises:
        InvalidArgument: it is read outside of any pod, or by a pod that does not see the role.
    """
    resolver: Resolver | None = getattr(_reading, "resolver", None)
    if resolver is None:
        raise InvalidArgument(
            f"a handle of role {role!r} was unpickled outside of its troupe: only a pod that is sent one can read it"
        )
    return resolver(role, when_down, down_ms)


@contextmanager
def resolving(resolver: Resolver) -> Generator[None]:
    """Have this thread, inside the block, find handles so."""
    before: Resolver | None = getattr(_reading, "resolver", None)
    _reading.resolver = resolver
    try:
        yield
    finally:
        _reading.resolver = before
