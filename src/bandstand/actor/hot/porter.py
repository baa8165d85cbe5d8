"""The porter: packs with a message what is to travel along. The sender's context variables, and what a tracer gives.

Where nothing does, a message is its data and nothing else. Only what differs from the loop's own context is worth a parcel: two
contexts that hold the same are told apart by one comparison of pointers.
"""

# current_context comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any

from bandstand.actor.hot.stage import Parcel

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, this is C's own function, declared in the .pxd.
    current_context = copy_context

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle
    from bandstand.actor.hot.method import Method


class Porter:
    """Packs what is sent through the handles of one loop."""

    __slots__ = ("carries", "home", "is_light", "luggage", "packing", "sending")

    def __init__(
        self,
        home: Context,
        carries: bool,
        sending: Callable[[Handle, Method], object] | None,
        luggage: Callable[[Context | None, object], Any],
        packing: Callable[[Handle, Method, object], object] | None = None,
    ) -> None:
        self.home = home
        self.carries = carries
        # What a tracer gives along; None without one.
        self.sending = sending
        # Makes what travels along of a context and of what the tracer gave.
        self.luggage = luggage
        # Makes of a message's data what is posted, in place of all that; None for nearly every loop.
        self.packing = packing
        # Whether nothing but context variables ever travels along: then a message of a plain handler is its data.
        self.is_light = sending is None and packing is None

    def pack(self, handle: Handle, method: Method, data: object) -> object:
        """The data of a message, in a parcel if something travels along."""
        if self.packing is not None:
            return self.packing(handle, method, data)
        context: Context | None = None
        kernel = handle._bs_loop
        # A plain handler runs in the loop's own context, and what it sets there is seen by all: nothing to carry.
        if self.carries and (kernel._abroad or not kernel._ticking or kernel._is_afar()):
            context = current_context()
            if context == self.home:
                context = None
        if self.sending is not None:
            return Parcel(data, self.luggage(context, self.sending(handle, method)))
        return data if context is None else Parcel(data, self.luggage(context, None))
