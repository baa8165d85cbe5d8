"""Packs arguments in the call that sends them, on whatever thread that is."""

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.link.codec import Carried, culprit, pack_value
from bandstand.pod.link.hot.plain import is_plain
from bandstand.pod.passport import sending

if TYPE_CHECKING:
    from bandstand.pod.passport import HandleCheck
    from bandstand.service.hot.handle import Handle
    from bandstand.service.hot.method import Method

UNSET = object()


class Packer:
    """Packs arguments.

    Args:
        carries: the context variables that travel along, where they are set and are not their defaults.
        check: says why the receiver could not resolve a handle among the arguments; without it, no handle can be sent.
    """

    __slots__ = ("_carries", "_check")

    def __init__(self, carries: tuple[ContextVar[Any], ...], check: HandleCheck | None = None) -> None:
        self._check = check
        self._carries = tuple(
            [(place, carries[place], default_of(carries[place])) for place in range(len(carries))]
        )

    def pack(self, handle: Handle | None, method: Method, data: object) -> object:
        """What is posted in the place of these arguments: themselves, if they are plain, or a packet.

        Raises:
            TypeError: one of them, or of what travels along, cannot be pickled, or is a handle that the receiver could not
                resolve; it is named.
        """
        carried = self.carried() if self._carries else ()
        if not carried and is_plain(data):
            return data
        # The pod it is sent to.
        pod = None if handle is None else getattr(handle._bs_place, "pod", None)
        with sending(self._check, pod):
            try:
                return pack_value(data, carried)
            except Exception as error:
                raise TypeError(
                    f"{method.owner}.{method.name}() of {safe_repr(handle)} cannot be sent to another process: {culprit(data, carried)} cannot be "
                    f"pickled ({safe_str(error)})"
                ) from error

    def carried(self) -> Carried:
        """What travels along from here."""
        carried: list[tuple[int, Any]] = []
        for place, variable, default in self._carries:
            value = variable.get(UNSET)
            if value is not UNSET and value is not default:
                carried.append((place, value))
        return tuple(carried)


def default_of(variable: ContextVar[Any]) -> object:
    """The default of a context variable; UNSET if it has none."""
    try:
        return Context().run(variable.get)
    except LookupError:
        return UNSET
