"""The exchange: who is there, and how everybody comes to know it.

Whenever an incarnation begins, runs, ends or will not be back, all the others are told. Those of one process reach each other's actors
directly: they read addresses from one board. Between two of which at least one is in a process of its own there is a link, a pair of sockets: it
is made as soon as both have begun, because one that is being started may already ask the other; but nobody sends to one that does
not run yet. All of it on the kubelet's thread.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, final

from bandstand.errors.formatting import safe_repr
from bandstand.pod.registry import Board, registry_of
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
        self._board = Board()
        self.registries = {
            pod.name: registry_of(spec, later, self._board, pod.name)
            for pod in spec.pods
            if pod.thread is not ThreadModel.PROCESS
        }
        self._heard = {pod.name: any(role.is_exposed for role in pod.roles) for pod in spec.pods}
        self._stages: dict[str | None, Stage] = {}
        self._running: set[str | None] = set()
        self._gone: dict[str, str] = {}
        # Those of them that have a process of their own.
        self._apart: dict[str | None, Stage] = {}
        # Who can reach whom by a link: a pod, or None for the outside, and those whose actors it can reach.
        self._known: dict[str | None, set[str | None]] = {}
        # The links by their numbers, with the two that they join; and the numbers of each.
        self._links: dict[int, tuple[Stage, Stage]] = {}
        self._numbers: dict[Stage, set[int]] = {}
        self._next_number = count(1)

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
        if stage.is_apart or stage.pod is None:
            # Those of this process have read it from the board.
            for pod, reason in self._gone.items():
                stage.retire(pod, reason)
        for other in self._distant(stage):
            self._link(stage, other, is_running=other.pod in self._running)
        self._stages[stage.pod] = stage
        if stage.is_apart:
            self._apart[stage.pod] = stage

    def open(self, stage: Stage) -> None:
        """It runs: from now on others can send to it."""
        if self._stages.get(stage.pod) is not stage:
            return
        self._running.add(stage.pod)
        if stage.pod is None:
            return
        for other in self._distant(stage):
            other.announce(stage.pod)
        if not stage.is_apart:
            self._publish(stage.pod, stage.exposed)

    def know(self, stage: Stage, peer: str) -> None:
        """One can reach the actors of a pod, by their link."""
        if self._stages.get(stage.pod) is stage:
            self._known.setdefault(stage.pod, set()).add(peer)

    def is_known(self, stage: Stage) -> bool:
        """Whether everybody who runs can reach it, and it can reach everybody who runs."""
        for other in self._distant(stage):
            if other.pod not in self._running and other.pod is not None:
                continue
            if not (self._is_heard(stage) or self._is_heard(other)):
                continue
            if stage.pod not in self._known.get(other.pod, ()):
                return False
            if other.pod is not None and other.pod not in self._known.get(stage.pod, ()):
                return False
        return True

    def lose(self, stage: Stage, number: int, *, is_ours: bool) -> tuple[Stage, str] | None:
        """One of two reports that their link has failed: which of them is to blame, and the name of the other for people.

        None if that is known already, or one of them has ended. What is in this process is never to blame: it cannot be started
        again without the rest.
        """
        pair = self._links.get(number)
        if pair is None or stage not in pair:
            return None
        self._forget_link(number)
        other = pair[1] if pair[0] is stage else pair[0]
        is_to_blame = is_ours if other.is_apart else True
        culprit, witness = (stage, other) if is_to_blame and stage.is_apart else (other, stage)
        return culprit, "the program outside" if witness.pod is None else f"pod {safe_repr(witness.pod)}"

    def leave(self, stage: Stage, reason: str) -> None:
        """It has ended, for a reason."""
        if self._stages.get(stage.pod) is not stage:
            return
        del self._stages[stage.pod]
        for number in list(self._numbers.get(stage, ())):
            self._forget_link(number)
        self._apart.pop(stage.pod, None)
        self._running.discard(stage.pod)
        self._known.pop(stage.pod, None)
        distant = self._distant(stage)
        for other in distant:
            self._known.get(other.pod, set()).discard(stage.pod)
        if stage.pod is None:
            return
        for other in distant:
            other.withdraw(stage.pod, reason)
        outside = self._stages.get(None)
        if outside is not None and outside not in distant:
            outside.withdraw(stage.pod, reason)
        self._board.withdraw(stage.pod)

    def retire(self, pod: str, reason: str) -> None:
        """A pod will not be back."""
        self._gone[pod] = reason
        outside = self._stages.get(None)
        for other in (*self._apart.values(), *(() if outside is None else (outside,))):
            if other.pod != pod:
                other.retire(pod, reason)
        self._board.retire(pod, reason)

    def close(self, reason: str) -> None:
        """All is over: nobody will come back behind any handle."""
        for registry in self.registries.values():
            registry.close(reason)

    def _publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Tell everybody in this process who has a handle of it, also those who are down: others may have handles of theirs."""
        self._board.publish(pod, addresses)
        outside = self._stages.get(None)
        if outside is not None:
            outside.publish(pod, addresses)

    def _distant(self, stage: Stage) -> list[Stage]:
        """Those that are in another process than a stage: for one of this process, those that are apart."""
        others = self._stages if stage.is_apart else self._apart
        return [other for other in others.values() if other is not stage]

    def _link(self, stage: Stage, other: Stage, *, is_running: bool) -> None:
        if not (self._is_heard(stage) or self._is_heard(other)):
            # Neither has anybody that the other could talk to.
            return
        mine, theirs = socket.socketpair()
        number = next(self._next_number)
        # An end is its stage's own as soon as it was given to it, also if that has no descriptor left for it: then the other one
        # finds the link closed.
        try:
            stage.attach(other.pod, mine, is_running=is_running, number=number)
        except OSError:
            theirs.close()
            raise
        other.attach(stage.pod, theirs, is_running=False, number=number)
        self._links[number] = (stage, other)
        for each in (stage, other):
            self._numbers.setdefault(each, set()).add(number)

    def _forget_link(self, number: int) -> None:
        for each in self._links.pop(number):
            numbers = self._numbers[each]
            numbers.discard(number)
            if not numbers:
                del self._numbers[each]

    def _is_heard(self, stage: Stage) -> bool:
        return stage.pod is not None and self._heard[stage.pod]
