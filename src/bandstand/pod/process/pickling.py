"""Objects as bytes, between two processes that run the same program: pickle, and errors that say whose and what."""

from __future__ import annotations

import pickle
from typing import Any

from bandstand.errors import BadMessage
from bandstand.errors.formatting import describe_exception, safe_str

__all__ = ("pack", "unpack")

PROTOCOL = 5

# Pickle raises the first; it, and what objects do in their __reduce__ and __getstate__, also the others.
REFUSALS = (pickle.PicklingError, AttributeError, TypeError, ValueError, RecursionError, NotImplementedError)


def pack(what: object, where: str) -> bytes:
    """Make bytes of an object.

    Args:
        what: anything that can be pickled.
        where: whither it goes, for the error: "to process 'painter'".

    Raises:
        TypeError: it holds something that cannot travel.
    """
    try:
        return pickle.dumps(what, PROTOCOL)
    except REFUSALS as error:
        raise TypeError(
            f"{type(what).__qualname__} cannot go {where}: {safe_str(error)}; what goes to another process must be something that can be "
            f"pickled, and classes and functions be found by the name they have in their module"
        ) from error


def unpack(data: bytes, where: str) -> Any:  # whatever was packed
    """Make the object again.

    Args:
        data: what `pack` has made.
        where: whence it comes, for the error: "from process 'painter'".

    Raises:
        BadMessage: it cannot be made here.
    """
    try:
        return pickle.loads(data)  # noqa: S301  # from our own child or parent, over a socket that nobody else has
    except Exception as error:  # constructors of the user's run here
        raise BadMessage(f"what came {where} cannot be read here: {describe_exception(error)}") from error
