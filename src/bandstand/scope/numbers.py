"""The numbers behind the words of the room, for code that is compiled. This module is never compiled."""

from typing import Any, Final

# How an operation stands. It is FRESH until somebody waits for it, and changes once more after WAITING, never back.
FRESH: Final[int] = 0
WAITING: Final[int] = 1
DONE: Final[int] = 2
CLOSED: Final[int] = 3
EXPIRED: Final[int] = 4
CANCELLED: Final[int] = 5
# Whoever waited was cancelled from outside, and is gone; and: the result has been taken.
LEFT: Final[int] = 6
SPENT: Final[int] = 7

# How long to wait if no time is given, in milliseconds.
FOREVER: Final[float] = -1.0

# What a channel answers instead of an element: there is none, and there never will be one. Objects: an element can be anything.
EMPTY: Final[Any] = object()
OVER: Final[Any] = object()

# A channel whose list has grown beyond this gives it back when it is empty.
REST_ROOM: Final[int] = 256

# A channel that is never full.
BOUNDLESS: Final[int] = -1
