"""Integer constants that compiled modules share.

Compiled code compares C integers, not enumeration members: a module imports the constants it needs, and its `.pxd` declares
their C type. This module itself is never compiled.
"""

from typing import Final

# How a message carries the arguments of its method.
NO_ARGUMENTS: Final[int] = 0
ONE_ARGUMENT: Final[int] = 1
"""The data is the argument itself."""
POSITIONAL_ARGUMENTS: Final[int] = 2
"""The data is a tuple."""
KEYWORD_ARGUMENTS: Final[int] = 3
"""The data is a pair: a tuple of positional arguments and a dict of keyword arguments."""

# The state of a reply. From CANCELLED on, an answer comes too late and is dropped.
PENDING: Final[int] = 0
ANSWERED: Final[int] = 1
FAILED: Final[int] = 2
CANCELLED: Final[int] = 3
EXPIRED: Final[int] = 4
LOST: Final[int] = 5

# What becomes of a message to a restartable actor that is not running at the moment.
REFUSED: Final[int] = 0
HELD: Final[int] = 1
"""The message waits for the next incarnation."""
RETRY: Final[int] = 2
"""The actor has been started meanwhile: send the message again."""
