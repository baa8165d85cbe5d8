"""How a handler says that its message is to be kept for later: it raises this, and is over.

The kernel has the whole message in its hands where a behavior raises, and so the path of every other message costs nothing. That
it is no `Exception` keeps a handler's own `except Exception` from catching it.
"""

from __future__ import annotations

from typing import Protocol

__all__ = ("SetAside", "Shelf")


class Shelf(Protocol):
    """Where messages are kept. The kernel counts them on it, and holds them itself."""

    count: int


class SetAside(BaseException):
    """The message at hand is kept: it is neither handled nor answered."""

    def __init__(self, shelf: Shelf) -> None:
        super().__init__()
        self.shelf = shelf
