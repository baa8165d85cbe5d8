"""The exchange: who is there, and how everybody comes to know it.

Whenever an incarnation begins, runs, ends or will not be back, all the others are told. Those of one process reach each other's actors
directly: they are told addresses. Between two of which at least one is in a process of its own there is a link, a pair of sockets: it
is made as soon as both have begun, because one that is being started may already ask the other; but nobody sends to one that does
not run yet. All of it on the kubelet's thread.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

from bandstand.pod.registry import registry_of
from bandstand.pod.vocabulary import ThreadModel

if TYPE_CHECKING:
    from bandstand.core import ActorId
    from bandstand.pod.later import Later
    from bandstand.pod.spec import TroupeSpec
    from bandstand.pod.stages import Stage

__all__ = ("Exchange",)


@final
class Exchange:
    """Those who are there at present, of one troupe, and those who will not be back."""

    def __init__(self, spec: TroupeSpec, later: Later) -> None:
        # A registry for each pod that plays in this process. It is the pod's, and not an incarnation's: handles that were given to others
        # outlive those who gave them.
        self.registries = {
            pod.name: registry_of(spec, later) for pod in spec.pods if pod.thread is not ThreadModel.PROCESS
        }
        self._heard = {pod.name: any(role.is_exposed for role in pod.roles) for pod in spec.pods}
        self._stages: dict[str | None, Stage] = {}
        self._running: set[str | None] = set()
        self._gone: dict[str, str] = {}
        # Who can reach whom by a link: a pod, or None for the outside, and a pod.
        self._known: set[tuple[str | None, str | None]] = set()

    @property
    def stages(self) -> Mapping[str | None, Stage]:
        """The incarnations that have begun and not ended, by pod; None for the outside."""
        return self._stages

    @property
    def gone(self) -> Mapping[str, str]:
        """The pods that will not be back, and why."""
        return self._gone

    def begin(self, stage: Stage) -> None:
        """An incarnation has begun: tell it about the others, and link it with those it cannot reach otherwise."""
        for pod, reason in self._gone.items():
            stage.retire(pod, reason)
        for other in self._others(stage):
            if self._are_apart(stage, other):
                self._link(stage, other, is_running=other.pod in self._running)
        self._stages[stage.pod] = stage

    def open(self, stage: Stage) -> None:
        """It runs: from now on others can send to it."""
        if self._stages.get(stage.pod) is not stage:
            return
        self._running.add(stage.pod)
        if stage.pod is None:
            return
        for other in self._others(stage):
            if self._are_apart(stage, other):
                other.announce(stage.pod)
        if not stage.is_apart:
            self._publish(stage.pod, stage.exposed)

    def know(self, stage: Stage, peer: str) -> None:
        """One can reach the actors of a pod, by their link."""
        if self._stages.get(stage.pod) is stage:
            self._known.add((stage.pod, peer))

    def is_known(self, stage: Stage) -> bool:
        """Whether everybody who runs can reach it, and it can reach everybody who runs."""
        for other in self._others(stage):
            if other.pod not in self._running and other.pod is not None:
                continue
            if not self._are_apart(stage, other) or not (self._is_heard(stage) or self._is_heard(other)):
                continue
            if (other.pod, stage.pod) not in self._known:
                return False
            if other.pod is not None and (stage.pod, other.pod) not in self._known:
                return False
        return True

    def leave(self, stage: Stage, reason: str) -> None:
        """It has ended, for a reason."""
        if self._stages.get(stage.pod) is not stage:
            return
        del self._stages[stage.pod]
        self._running.discard(stage.pod)
        self._known = {pair for pair in self._known if stage.pod not in pair}
        if stage.pod is not None:
            for other in self._others(stage):
                other.withdraw(stage.pod, reason)
            for registry in self.registries.values():
                registry.withdraw(stage.pod)

    def retire(self, pod: str, reason: str) -> None:
        """A pod will not be back."""
        self._gone[pod] = reason
        for other in self._stages.values():
            if other.pod != pod:
                other.retire(pod, reason)
        for registry in self.registries.values():
            registry.retire(pod, reason)

    def close(self, reason: str) -> None:
        """All is over: nobody will come back behind any handle."""
        for registry in self.registries.values():
            registry.close(reason)

    def _publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Tell everybody in this process, also those who are down: others may have handles of theirs. The pod itself knows."""
        for name, registry in self.registries.items():
            if name != pod:
                registry.publish(pod, addresses)
        outside = self._stages.get(None)
        if outside is not None:
            outside.publish(pod, addresses)

    def _others(self, stage: Stage) -> list[Stage]:
        return [other for other in self._stages.values() if other is not stage]

    @staticmethod
    def _are_apart(one: Stage, other: Stage) -> bool:
        return one.is_apart or other.is_apart

    def _link(self, stage: Stage, other: Stage, *, is_running: bool) -> None:
        if not (self._is_heard(stage) or self._is_heard(other)):
            # Neither has anybody that the other could talk to.
            return
        mine, theirs = socket.socketpair()
        # An end is its stage's own as soon as it was given to it, also if that has no descriptor left for it: then the other one
        # finds the link closed.
        try:
            stage.attach(other.pod, mine, is_running=is_running)
        except OSError:
            theirs.close()
            raise
        other.attach(stage.pod, theirs, is_running=False)

    def _is_heard(self, stage: Stage) -> bool:
        return stage.pod is not None and self._heard[stage.pod]
