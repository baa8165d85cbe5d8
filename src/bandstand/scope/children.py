"""The children of one scope: who is there, who has left, and what it takes to be alone.

Nobody is lost: a child is in these books from its start to the moment the scope has heard of its end, or has given it up loudly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.scope.child import ActorChild
from bandstand.scope.latch import Latch

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future

    from bandstand.core import ActorId
    from bandstand.scope.child import Child, Handle

__all__ = ("Children",)

logger = SafeLogger("bandstand.scope")


def _no_one(_error: BaseException) -> None:
    """What hears of errors when no child is left that could have one."""


@final
class Children:
    """The books. On the scope's own thread, but for the latches."""

    __slots__ = (
        "_actors",
        "_all",
        "_change",
        "_has_left_behind",
        "_is_closed",
        "_is_ending",
        "_name",
        "_on_error",
        "_workers",
        "idle",
        "joined",
    )

    def __init__(self, name: str, on_error: Callable[[BaseException], object]) -> None:
        self._name = name
        self._on_error = on_error
        self._all: dict[Handle, Child] = {}
        # The actors among them, channel actors included.
        self._actors: set[ActorId] = set()
        # How many of them end by themselves.
        self._workers = 0
        self._is_ending = False
        self._is_closed = False
        self._has_left_behind = False
        self._change: Future[None] | None = None
        self.idle: Latch[bool] = Latch(f"the end of all tasks and channel actors of {name}")
        """Open while nobody is there who would end by itself; another one each time."""
        self.idle.open(True)  # noqa: FBT003  # what a wait for it gives
        self.joined: Latch[bool] = Latch(f"the end of all children of {name}")
        """Open when the scope was cancelled, and all have left; whether they have ended, and none was left behind."""

    def handles(self) -> tuple[Handle, ...]:
        """Those that have not ended, the oldest first."""
        return tuple(handle for handle, child in self._all.items() if not child.is_over)

    def __len__(self) -> int:
        return len(self._all)

    def __contains__(self, handle: object) -> bool:
        return handle in self._all or handle in self._actors

    def has_current_actor(self) -> bool:
        """Whether the caller is an actor of these, in its turn."""
        return any(isinstance(child, ActorChild) and child.is_asking() for child in self._all.values())

    def add(self, child: Child) -> None:
        """Take one in."""
        self._all[child.handle] = child
        if isinstance(child, ActorChild):
            self._actors.add(child.actor)
        if child.ends_by_itself:
            self._workers += 1
            if self.idle.is_open:
                self.idle = Latch(self.idle.what)
        self._stir()

    def ended(self, child: Child, error: BaseException | None) -> None:
        """One has ended, with an error or without."""
        if self._all.get(child.handle) is not child:
            if error is not None:
                logger.error(
                    "%r, which %s had given up, has failed", child.handle, self._name, exc_info=error
                )
            return
        try:
            if error is not None:
                # First: whoever is woken by its leaving finds the error.
                self._on_error(error)
        finally:
            self._remove(child)

    def _remove(self, child: Child) -> None:
        del self._all[child.handle]
        if isinstance(child, ActorChild):
            self._actors.discard(child.actor)
        if child.ends_by_itself:
            self._workers -= 1
            if self._workers == 0:
                self.idle.open(True)  # noqa: FBT003  # what a wait for it gives
        if self._is_ending and not self._all:
            self.join()
        if self._is_closed:
            self.close()
        self._stir()

    # -- ending --------------------------------------------------------------------------------------------------------

    def cancel(self, reason: str) -> None:
        """Have all of them end, the youngest first, and whoever should come later."""
        self._is_ending = True
        for child in reversed(list(self._all.values())):
            if not child.is_over:
                child.cancel(reason)
        if not self._all:
            self.join()

    def drain(self) -> None:
        """If only those are left who do not end by themselves, have the youngest finish; the others are still needed by it."""
        if self._workers or self._is_ending:
            return
        for child in reversed(list(self._all.values())):
            if not child.is_over:
                child.drain()
            if not child.is_over:
                return

    def give_up(self, ms: float) -> None:
        """They had their time: kill who can be killed, and leave behind, loudly, who cannot."""
        for child in list(self._all.values()):
            if child.is_over:
                continue
            is_killed = child.kill()
            logger.error(
                "%r has not ended %g ms after %s was cancelled, and %s",
                child.handle,
                ms,
                self._name,
                "was killed"
                if is_killed
                else "is left behind: it ignores its cancellation, or cleans up for too long",
            )
            if not is_killed:
                self._has_left_behind = True
                self._remove(child)

    def close(self) -> None:
        """The scope is over: whoever is not gone yet is the last whose error it hears."""
        self._is_closed = True
        if not self._all:
            # It is a method of the scope, which holds these books.
            self._on_error = _no_one

    def join(self) -> None:
        """Say that they have left; or that nobody waits for those who have not."""
        self.joined.open(not self._has_left_behind and not self._all)

    # -- waiting -------------------------------------------------------------------------------------------------------

    def change(self, host: AbstractEventLoop) -> Future[None]:
        """Done as soon as nobody is left who would end by itself, and then whenever somebody comes or leaves."""
        self._change = host.create_future()
        return self._change

    def _stir(self) -> None:
        if self._workers > 0 or self._change is None:
            return
        change, self._change = self._change, None
        if not change.done():
            change.set_result(None)
