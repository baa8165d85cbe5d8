"""The outside: the program's own part of a troupe. It has no actors; its handles need a registry and a porch like everybody's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, final

from bandstand.pod.stages.local import LocalStage
from bandstand.pod.stages.stage import Told

if TYPE_CHECKING:
    from bandstand.pod.link import Undelivered
    from bandstand.pod.spec import TroupeSpec

__all__ = ("OutsideStage",)


@final
class OutsideStage(LocalStage):
    """The handles of the program, from before the troupe plays until after its end.

    It rides the kubelet's event loop, or that of a guest: of whoever plays the troupe in an event loop, or of the kubelet of the
    troupe around.
    """

    def __init__(self, spec: TroupeSpec, on_dead: Callable[[Undelivered], object]) -> None:
        super().__init__(
            spec, None, 0, Told(phase=_ignore, begun=_ignore, known=_ignore, failing=_ignore, dead=on_dead)
        )
        self.is_guest = False
        """Whether somebody else than the troupe's own kubelet runs it."""
        self.on_known: Callable[[str], object] = _ignore
        """Called with each pod that it can reach by a link, on whichever thread it runs."""

        self.on_lost: Callable[[int, str, bool], object] = _ignore
        """Called with each link of its own that has failed, on whichever thread it runs."""

    def _tell_known(self, peer: str) -> None:
        self.on_known(peer)

    def _tell_lost(self, number: int, reason: str, is_ours: bool) -> None:
        self.on_lost(number, reason, is_ours)

    def ping(self, pod: str) -> Future[None]:
        """Have a pod of another process answer over its link. The answer never comes if there is no link. From any thread."""
        answer: Future[None] = Future()

        def answered() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(None)

        self._there(lambda: self.ensemble.neighbours.ping(pod, answered))
        return answer

    def close(self, reason: str) -> None:
        """Nobody will come back behind any of its handles. From any thread."""
        self.ensemble.registry.close(reason)


def _ignore(*_told: object) -> None:
    """Nobody wants to know: it is there before any kubelet is."""
