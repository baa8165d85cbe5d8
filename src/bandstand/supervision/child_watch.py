"""Watching a child through restarts: its own, and those of the supervisors above it.

A child is named by a path down from a supervisor. A supervisor on that path may be restarted, and then it has new slots under
the same names. So a watch registers with every slot on the path that exists, and when one of them changes, it walks the path again.
There is no polling, and a child without watches pays one comparison with None per start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, final

if TYPE_CHECKING:
    from bandstand.supervision.children import ChildSlot
    from bandstand.supervision.supervisor_actor import SupervisorActor

__all__ = ("ChildWatch",)


@final
class ChildWatch:
    """Calls a function when a child has a new incarnation, and when it will never run again. Loop thread only.

    The function must not raise. It may also be called without a change: check the child.
    """

    __slots__ = ("_callback", "_path", "_root", "_slots")

    def __init__(self, root: SupervisorActor, path: Sequence[str], callback: Callable[[], object]) -> None:
        self._root = root
        self._path = path
        self._callback = callback
        self._slots: list[ChildSlot] = []
        self._attach()

    def changed(self) -> None:
        """Walk the path again and call the function. Slots call this."""
        self.cancel()
        self._attach()
        self._callback()

    def cancel(self) -> None:
        """Stop watching."""
        for slot in self._slots:
            if slot.watchers is not None:
                slot.watchers.pop(self, None)
        self._slots.clear()

    def _attach(self) -> None:
        self._slots = self._root.slots_on_path(self._path)
        for slot in self._slots:
            if slot.watchers is None:
                slot.watchers = {}
            slot.watchers[self] = None
