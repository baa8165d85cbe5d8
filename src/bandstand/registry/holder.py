"""A holder: whoever has one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, final

from bandstand.service.lowlevel import Presence

if TYPE_CHECKING:
    from bandstand.service import Loop

__all__ = ("Holder",)


@final
class Holder:
    """Whoever has one name: an actor until it has ended, or a supervisor's child as long as its place is kept."""

    __slots__ = ("_came", "_vacate", "name", "presence")

    def __init__(
        self,
        loop: Loop,
        name: str,
        handle: object,
        vacate: Callable[[Holder], object],
        came: Callable[[str], object],
    ) -> None:
        self.name = name
        self._vacate = vacate
        self._came = came
        self.presence = Presence(loop, handle, self._end, self._tell)

    @property
    def handle(self) -> Any:
        """Its handle, as it was registered."""
        return self.presence.handle

    @property
    def is_there(self) -> bool:
        """Whether somebody accepts messages behind it at this moment."""
        return self.presence.actor is not None

    @property
    def is_gone(self) -> bool:
        """Whether nobody will be there any more: then the name is free."""
        return self.presence.is_gone

    def describe(self) -> str:
        """How to speak of it."""
        state = "" if self.is_there else ", which is down, or ending"
        return f"{self.handle!r}{state}"

    def _end(self) -> None:
        self._vacate(self)

    def _tell(self) -> None:
        if self.is_there:
            self._came(self.name)
