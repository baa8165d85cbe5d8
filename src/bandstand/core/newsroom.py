"""Where the events of a loop are told: to whoever listens, and into the books.

Nothing here is paid for by a message that nothing happens to. A listener that raises is logged and goes no further: whoever listens
never hurts the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, final

if TYPE_CHECKING:
    from bandstand.core.events import RuntimeEvent

__all__ = ("Listener", "Listening", "Newsroom")

Listener: TypeAlias = "Callable[[RuntimeEvent], object]"


@final
class Listening:
    """That somebody listens. Keep it to end it."""

    __slots__ = ("_listener", "_newsroom")

    def __init__(self, newsroom: Newsroom, listener: Listener) -> None:
        self._newsroom = newsroom
        self._listener = listener

    def cancel(self) -> bool:
        """Listen no more; False if it was over already. Loop thread only."""
        return self._newsroom._forget(self)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one mechanism

    def _hear(self, event: RuntimeEvent) -> None:
        self._listener(event)


@final
class Newsroom:
    """The events of one loop: `loop.events`."""

    __slots__ = ("_complain", "_counts", "_listenings")

    def __init__(self, complain: Callable[[str, BaseException], None]) -> None:
        self._complain = complain
        self._counts: dict[str, int] = {}
        self._listenings: tuple[Listening, ...] = ()

    def listen(self, listener: Listener) -> Listening:
        """Have `listener(event)` called for each event, inside what it tells of: on the loop's thread, and quickly."""
        listening = Listening(self, listener)
        self._listenings = (*self._listenings, listening)
        return listening

    def tell(self, event: RuntimeEvent) -> None:
        """Something has happened: count it, and tell whoever listens."""
        kind = type(event).__name__
        self._counts[kind] = self._counts.get(kind, 0) + 1
        for listening in self._listenings:
            try:
                listening._hear(event)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # same
            except Exception as error:  # noqa: BLE001  # whoever listens never hurts the loop
                self._complain(f"a listener of the loop's events has raised at {kind}", error)

    def _forget(self, listening: Listening) -> bool:
        left = tuple(each for each in self._listenings if each is not listening)
        is_known = len(left) < len(self._listenings)
        self._listenings = left
        return is_known
