"""What can be subscribed: the shape of a one-way method that takes an event."""

from __future__ import annotations

from typing import Protocol, TypeVar

__all__ = ("Receives",)

T_contra = TypeVar("T_contra", contravariant=True)


class Receives(Protocol[T_contra]):
    """A one-way method of a handle that takes one argument: `handle.on_price`. A `Tell` is one; a plain function is not."""

    def __call__(self, event: T_contra, /) -> None:
        """Send it."""
        ...

    def try_send(self, event: T_contra, /) -> bool:
        """Send it, if that can be done."""
        ...
