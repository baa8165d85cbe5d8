"""What a supervisor needs of the loop, and the tree that everybody can look at.

The core knows no supervisor. It knows that an actor may have a *family*, somebody to ask about its children and to end them
with it; that a child is started with an init; and that whoever has nobody above to turn to may end the whole loop, with
an error that tells why. `lowlevel` is the door through which the room above comes in.
"""

from __future__ import annotations

from bandstand.core.tree import Tree, build_tree
from bandstand.core.watching import Watching
from bandstand.errors import BandstandError, MaxActors

__all__ = ("Parenting",)


class Parenting(Watching):
    """The loop, for supervisors. `Loop` is what to use."""

    def tree(self) -> Tree:
        """A snapshot of everybody alive: supervisors with their children, in order, and those nobody supervises.

        Loop thread only. `print(loop.tree())` draws it, with status, messages waiting and restarts.
        """
        self._check_thread()
        return build_tree(self._rows())

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
