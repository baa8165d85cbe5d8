"""Following a child's place through the tree: who is there now, who comes next, and whether anybody will.

A place is named by a path from a supervisor down. What stands on the way may be started again, and then its children are others,
under the same names. So a follower stands at every seat on the way that there is, and when one of them changes it goes the way anew.
Nothing is asked for again and again, and a child that nobody follows costs a look at None when it starts.
"""

# One of the supervisor's own, and apart from it only so that no user meets it there.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.supervision.stage import CLOSED

if TYPE_CHECKING:
    from bandstand.supervision.hot.seat import Seat
    from bandstand.supervision.overseer import Overseer

__all__ = ("Following", "is_gone")


@final
class Following:
    """Calls a function when somebody is there anew at a place, and when nobody will be any more. It must not raise.

    It may also be called for nothing: look at the place. Loop thread only.
    """

    __slots__ = ("_path", "_root", "_seats", "_told")

    def __init__(self, root: Overseer, path: tuple[str, ...], told: Callable[[], object]) -> None:
        self._root = root
        self._path = path
        self._told = told
        self._seats: list[Seat] = []
        self._attach()

    def changed(self) -> None:
        """Something has happened on the way: go it anew, and tell."""
        self.cancel()
        self._attach()
        self._told()

    def cancel(self) -> None:
        """Follow no more."""
        for seat in self._seats:
            if seat.followers is not None:
                seat.followers.pop(self, None)
        self._seats.clear()

    def _attach(self) -> None:
        overseer: Overseer | None = self._root
        for name in self._path:
            seat = None if overseer is None else overseer._seats.get(name)  # noqa: SLF001
            if seat is None:
                return
            if seat.followers is None:
                seat.followers = {}
            seat.followers[self] = None
            self._seats.append(seat)
            overseer = seat.supervisor


def is_gone(root: Overseer, path: tuple[str, ...]) -> bool:
    """Whether nobody will be at a place any more: the child was forgotten, or the supervisor at the root has ended.

    Not while a supervisor on the way is just down: it may be started again, and its children with it.
    """
    overseer = root
    if overseer._stage is CLOSED:  # noqa: SLF001
        return True
    for name in path:
        seat = overseer._seats.get(name)  # noqa: SLF001
        if seat is None:
            return True
        below = seat.supervisor
        # Down; or just being made, and without its children yet.
        if below is None or below._stage is CLOSED or below._me is None:  # noqa: SLF001
            return False
        overseer = below
    return False
