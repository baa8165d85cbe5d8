"""Membership: which incarnations are there, and how they reach each other. Runs on the controller's thread.

When an incarnation starts, runs, ends or is retired, all others are informed. Pods of one process reach each other's actors directly:
their address books share one `LocalAddresses`. Two pods of which at least one is a process have a link, a pair of sockets. It is made
as soon as both have started, because a pod that is still starting may already ask the other; but a pod is only announced, and
receives messages, once it runs.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from itertools import count
from typing import TYPE_CHECKING, final

from bandstand.pod.address_book import LocalAddresses, address_book_for
from bandstand.pod.enums import ThreadModel
from bandstand.pod.pod_runtime import describe_pod

if TYPE_CHECKING:
    from bandstand.pod.placement import Placement
    from bandstand.pod.spec import TroupeSpec
    from bandstand.pod.threads import CallLater

__all__ = ("Membership",)


@final
class Membership:
    """The incarnations of one deployment, and the pods that will not be restarted.

    Args:
        spec: the deployment.
        call_later: limits how long messages wait in the address books.
    """

    def __init__(self, spec: TroupeSpec, call_later: CallLater) -> None:
        self._local = LocalAddresses()
        # One for each pod of this process. It belongs to the pod, not to an incarnation: a handle that an actor has passed on may
        # outlive the actor.
        self.address_books = {
            pod.name: address_book_for(spec, call_later, self._local, pod.name)
            for pod in spec.members
            if pod.thread is not ThreadModel.PROCESS
        }
        self._has_exposed_roles = {
            pod.name: any(role.is_exposed for role in pod.roles) for pod in spec.members
        }
        # The replicated pod that a pod belongs to, and the names of all its replicas.
        self._replica_of = {pod.name: pod.replica_of for pod in spec.members if pod.replica_of is not None}
        self._replicas = {
            pod.name: [each.name for each in pod.members] for pod in spec.pods if pod.replicas is not None
        }
        self._placements: dict[str | None, Placement] = {}
        self._running: set[str | None] = set()
        self._gone: dict[str, str] = {}
        # The placements that are processes.
        self._processes: dict[str | None, Placement] = {}
        # For each pod (None: the caller), the pods whose actors it can reach by a link.
        self._reachable: dict[str | None, set[str | None]] = {}
        # The two ends of each link, by its number; and the link numbers of each placement.
        self._links: dict[int, tuple[Placement, Placement]] = {}
        self._link_numbers: dict[Placement, set[int]] = {}
        self._next_number = count(1)

    @property
    def placements(self) -> Mapping[str | None, Placement]:
        """The incarnations that have started and not ended, by pod; None for the caller."""
        return self._placements

    @property
    def gone(self) -> Mapping[str, str]:
        """The pods that will not be restarted, and why."""
        return self._gone

    def add(self, placement: Placement) -> None:
        """Add an incarnation that has started: inform it about the others, and link it with other processes."""
        if placement.is_out_of_process or placement.pod is None:
            # Address books of this process read this from the shared addresses.
            for pod, reason in self._gone.items():
                placement.retire(pod, reason)
        for other in self._linked_with(placement):
            self._link(placement, other, is_running=other.pod in self._running)
        self._placements[placement.pod] = placement
        if placement.is_out_of_process:
            self._processes[placement.pod] = placement

    def mark_running(self, placement: Placement) -> None:
        """Publish an incarnation that runs: others can send to it from now on."""
        if self._placements.get(placement.pod) is not placement:
            return
        self._running.add(placement.pod)
        if placement.pod is None:
            return
        for other in self._linked_with(placement):
            other.announce(placement.pod)
        if not placement.is_out_of_process:
            addresses = placement.exposed
            # All address books of this process that follow the pod, also those of pods that are down: other pods may have their handles.
            self._local.publish(placement.pod, addresses)
            caller = self._placements.get(None)
            if caller is not None:
                caller.publish(placement.pod, addresses)

    def mark_reachable(self, placement: Placement, peer: str) -> None:
        """Note that a placement can reach the actors of pod `peer` by a link."""
        if self._placements.get(placement.pod) is placement:
            self._reachable.setdefault(placement.pod, set()).add(peer)

    def is_reachable(self, placement: Placement) -> bool:
        """Return whether it and all that run can reach each other."""
        for other in self._linked_with(placement):
            if other.pod not in self._running and other.pod is not None:
                continue
            if not self._needs_link(placement, other):
                continue
            if placement.pod not in self._reachable.get(other.pod, ()):
                return False
            if other.pod is not None and other.pod not in self._reachable.get(placement.pod, ()):
                return False
        return True

    def lose_link(self, placement: Placement, number: int, *, is_ours: bool) -> tuple[Placement, str] | None:
        """Handle the report of a placement that a link has failed.

        Args:
            placement: the end that reports it.
            number: the number of the link.
            is_ours: whether the failure is the fault of that end.

        Returns:
            The placement that is at fault, and a description of the other end. None if the failure was reported before, or one of the
            ends has ended. A placement in this process is never at fault: it cannot be restarted without the rest.
        """
        ends = self._links.get(number)
        if ends is None or placement not in ends:
            return None
        self._forget_link(number)
        other = ends[1] if ends[0] is placement else ends[0]
        is_at_fault = placement.is_out_of_process and (is_ours or not other.is_out_of_process)
        culprit, peer = (placement, other) if is_at_fault else (other, placement)
        return culprit, describe_pod(peer.pod)

    def remove(self, placement: Placement, reason: str) -> None:
        """Remove an incarnation that has ended."""
        if self._placements.get(placement.pod) is not placement:
            return
        del self._placements[placement.pod]
        for number in list(self._link_numbers.get(placement, ())):
            self._forget_link(number)
        self._processes.pop(placement.pod, None)
        self._running.discard(placement.pod)
        self._reachable.pop(placement.pod, None)
        linked = self._linked_with(placement)
        for other in linked:
            self._reachable.get(other.pod, set()).discard(placement.pod)
        if placement.pod is None:
            return
        for other in linked:
            other.withdraw(placement.pod, reason)
        caller = self._placements.get(None)
        if caller is not None and caller not in linked:
            caller.withdraw(placement.pod, reason)
        self._local.withdraw(placement.pod)

    def retire(self, pod: str, reason: str) -> None:
        """Inform all placements that a pod will not be restarted. With its last replica, a replicated pod is retired."""
        self._gone[pod] = reason
        self._local.retire(pod, reason)
        caller = self._placements.get(None)
        is_replica = pod in self._replica_of
        # Address books of this process know it already, but not their dispatchers.
        others = self._placements.values() if is_replica else (*self._processes.values(), caller)
        for other in list(others):
            if other is not None and other.pod != pod:
                other.retire(pod, reason)
        if is_replica:
            replicated = self._replica_of[pod]
            if all(name in self._gone for name in self._replicas[replicated]):
                self.retire(replicated, f"all its replicas have ended; the last one was {pod!r}: {reason}")

    def close(self, reason: str) -> None:
        """Close all address books: handles fail from now on."""
        for book in self.address_books.values():
            book.close(reason)

    def _linked_with(self, placement: Placement) -> list[Placement]:
        """Return the placements in other processes than this one."""
        others = self._placements if placement.is_out_of_process else self._processes
        return [other for other in others.values() if other is not placement]

    def _link(self, placement: Placement, other: Placement, *, is_running: bool) -> None:
        if not self._needs_link(placement, other):
            return
        mine, theirs = socket.socketpair()
        number = next(self._next_number)
        # `attach` takes over the socket even if it raises, because no descriptor is left. Then the peer finds the link closed.
        try:
            placement.attach(other.pod, mine, is_running=is_running, number=number)
        except OSError:
            theirs.close()
            raise
        other.attach(placement.pod, theirs, is_running=False, number=number)
        self._links[number] = (placement, other)
        for end in (placement, other):
            self._link_numbers.setdefault(end, set()).add(number)

    def _forget_link(self, number: int) -> None:
        for end in self._links.pop(number):
            numbers = self._link_numbers[end]
            numbers.discard(number)
            if not numbers:
                del self._link_numbers[end]

    def _needs_link(self, placement: Placement, other: Placement) -> bool:
        """Return whether one of them has a role that the other may send to. Replicas of one pod do not send to each other."""
        replicated = self._replica_of.get(placement.pod or "")
        if replicated is not None and self._replica_of.get(other.pod or "") == replicated:
            return False
        return any(end.pod is not None and self._has_exposed_roles[end.pod] for end in (placement, other))
