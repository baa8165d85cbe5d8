"""Exceptions that cross the border: as themselves, with the traceback they had over there as text.

What cannot be pickled, or not be rebuilt, comes as a `RemoteError` that says what it was.
"""

from __future__ import annotations

import pickle
from types import FunctionType
from typing import Final, NamedTuple, final

from bandstand.core.logs import SafeLogger
from bandstand.errors import RemoteError
from bandstand.errors.formatting import safe_str, safe_traceback, set_cause, type_name

__all__ = ("Fault", "RemoteTraceback", "from_fault", "log_unbuilt", "to_fault")

logger = SafeLogger("bandstand.pod")

LONGEST_TEXT: Final = 16_384


@final
class RemoteTraceback(Exception):  # noqa: N818  # it is no error of its own, and Python calls them so
    """The traceback that an exception had in another process, as text: the cause of that exception here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n{self.text}"


class Fault(NamedTuple):
    """An exception on its way."""

    body: bytes
    """Its pickle; empty if there is none."""
    kind: str
    """The name of its class, with its module."""
    says: str
    """What it says."""
    text: str
    """Its traceback."""


class _Kept:
    """An exception, to be pickled by its class, its arguments and its attributes, and not by how its constructor is called.

    `BaseException` pickles itself as its class, called with `args`. That fails for a class whose constructor takes something else.
    """

    __slots__ = ("_error",)

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuilt, (type(self._error), self._error.args, vars(self._error)))


def _rebuilt(kind: type[BaseException], args: tuple[object, ...], state: dict[str, object]) -> BaseException:
    """The exception again: by its constructor, as pickle does, or past it."""
    try:
        error = kind(*args)
    except Exception:  # noqa: BLE001  # whatever a constructor makes of arguments that are not its own
        error = kind.__new__(kind, *args)
        error.args = args
    vars(error).update(state)
    return error


def _is_usual(kind: type[BaseException]) -> bool:
    """Whether a class has a constructor of its own, and pickles itself as every exception does."""
    return (
        isinstance(kind.__init__, FunctionType)
        and kind.__reduce__ is BaseException.__reduce__
        and kind.__reduce_ex__ is object.__reduce_ex__
    )


def to_fault(error: BaseException) -> Fault:
    """An exception, made to travel. Never raises."""
    kind = f"{safe_str(type(error).__module__)}.{type_name(error, qualified=True)}"
    try:
        body = pickle.dumps(_Kept(error) if _is_usual(type(error)) else error, 5)
    except Exception:  # noqa: BLE001  # whatever somebody's reduce raises
        body = b""
    return Fault(body, kind, safe_str(error), safe_traceback(error, LONGEST_TEXT).rstrip())


def from_fault(fault: Fault) -> BaseException:
    """The exception again, or a `RemoteError` in its place. Never raises."""
    body, kind, says, text = fault
    error: object = None
    why = "cannot be pickled"
    if body:
        try:
            error = pickle.loads(body)  # noqa: S301  # from a process that we have started, or that has started us
        except Exception as reason:  # noqa: BLE001  # whatever somebody's constructor raises
            why = f"cannot be rebuilt here: {safe_str(reason)}"
    if not isinstance(error, BaseException):
        error = RemoteError(f"{kind}: {says} ({why})")
        error.kind = kind
    set_cause(error, RemoteTraceback(text))
    return error


def log_unbuilt(why: BaseException) -> None:
    """Say in the log why a one-way message is dead: whoever sent it only counts it, and nobody waits for it."""
    logger.error("a message is dead: %s", why, exc_info=why)
