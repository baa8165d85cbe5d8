"""What a supervisor needs of the loop, and the tree that everybody can look at.

The core knows no supervisor. It knows that an actor may have a *family*, somebody to ask about its children and to end them
with it; that a child is started with an init; and that whoever has nobody above to turn to may end the whole loop, with
an error that tells why. `lowlevel` is the door through which the room above comes in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bandstand.core.tree import Tree, grow
from bandstand.core.watching import Watching
from bandstand.errors import BandstandError, InvalidArgument, MaxActors, NoMemory

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.core.hot.ids import ActorId
    from bandstand.core.vocabulary import Overflow

__all__ = ("Parenting",)


class Parenting(Watching):
    """The loop, for supervisors. `Loop` is what to use."""

    def tree(self) -> Tree:
        """A snapshot of everybody alive: supervisors with their children, in order, and those nobody supervises.

        Loop thread only. `print(loop.tree())` draws it, with status, messages waiting and restarts.
        """
        self._check_thread()
        return grow(self._rows())

    def _cap(self, mailbox_cap: int | None) -> int:
        """Check a mailbox cap against the loop's limits; the loop's own for None or 0."""
        if mailbox_cap is None or mailbox_cap == 0:
            return self.config.default_mailbox_cap
        if type(mailbox_cap) is not int or mailbox_cap > 1 << 30:
            raise InvalidArgument(f"mailbox_cap is {mailbox_cap!r}: pass an int, or None for the default")
        if mailbox_cap <= self.config.sys_reserved:
            raise InvalidArgument(
                f"mailbox_cap is {mailbox_cap} and sys_reserved is {self.config.sys_reserved}: the cap must be above the "
                f"reserve, or no user message ever fits"
            )
        return mailbox_cap

    def _make(
        self,
        behavior: Callable[..., Any],
        state: object,
        name: str | None,
        cap: int,
        overflow: Overflow | None,
        supervisor: ActorId | int | None,
        context: Context | None,
    ) -> ActorId:
        """Make an actor of checked arguments, which starts at once."""
        try:
            actor = self._create(behavior, state, name, cap, overflow, supervisor, context)
        except MemoryError as error:
            raise NoMemory("there is no memory for one more actor") from error
        if actor is None:
            raise self._no_seat()
        return actor

    def _no_seat(self) -> MaxActors:
        return MaxActors(
            f"{self.config.max_actors} actors live, as many as max_actors allows: end some, or raise "
            f"LoopConfig.max_actors"
        )

    def _fail(self, error: BandstandError) -> None:
        """End the whole loop with an error that comes out of `run()`, or of the `async with` block."""
        if self._broken is None:
            self._broken = error
        self.request_stop()

    def _is_stranded(self) -> bool:
        host = self._host
        return host is not None and host.loop.is_closed()

    def _forget_hooks(self) -> None:
        self._on_restart = self._on_escalate = None
