"""The neighbours of an ensemble: the pods it has links with, because they are in other processes, or it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import astuple
from functools import partial
from typing import TYPE_CHECKING, final

from bandstand.core.logs import SafeLogger
from bandstand.pod.books import PodBooks
from bandstand.pod.link import Link, LinkBooks

if TYPE_CHECKING:
    import socket

    from bandstand.actor import Loop
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.link import Packer, Undelivered
    from bandstand.pod.passport import HandleCheck, Resolver
    from bandstand.pod.registry import PodRegistry
    from bandstand.pod.spec import TroupeSpec

__all__ = ("Neighbours",)

logger = SafeLogger("bandstand.pod")

OUTSIDE = "outside"
"""How the program outside of the troupe is called, at both ends of a link."""


@final
class Neighbours:
    """The links of one ensemble. On its thread.

    Args:
        spec: the whole troupe.
        here: the pod at this end; None for the outside.
        porch: where those live who stand in for the actors of others.
        registry: where these are published.
        find: gives the handle of a role of this pod's own.
        resolver: gives handles that come as arguments.
        check: says why a pod could not resolve a handle that is sent to it.
        packer: packs what is sent to other processes.
        on_dead: called with messages that were lost.
        on_known: called with the name of a pod whose actors can be reached from now on.
        on_lost: called with the number of a link that has failed, the reason, and whether that is the fault of this side.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        here: str | None,
        porch: Loop,
        registry: PodRegistry,
        *,
        find: Callable[[str], Handle | None],
        resolver: Resolver,
        check: HandleCheck,
        packer: Packer,
        on_dead: Callable[[Undelivered], object],
        on_known: Callable[[str], object] = lambda _peer: None,
        on_lost: Callable[[int, str, bool], object] = lambda _number, _reason, _is_ours: None,
    ) -> None:
        self._spec = spec
        self._here = here
        self._porch = porch
        self._registry = registry
        self._find = find
        self._resolver = resolver
        self._check = check
        self._packer = packer
        self._on_dead = on_dead
        self._on_known = on_known
        self._on_lost = on_lost
        self._links: dict[str | None, Link] = {}
        # Who stands in for whom, of pods that have not said yet that they run.
        self._waiting: dict[str, Mapping[str, ActorId]] = {}
        self._announced: set[str] = set()
        # And of those that were published.
        self._published: dict[str, Mapping[str, ActorId]] = {}
        self._past = LinkBooks()

    def __contains__(self, peer: object) -> bool:
        return peer in self._links

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Take one end of a link to a pod, or to the outside. Its actors are published when it runs and the link is up.

        `number` is what the kubelet calls the link.
        """
        try:
            self._attach(peer, end, is_running=is_running, number=number)
        except Exception as error:
            # No memory, say. Without this link the two could never reach each other.
            logger.exception(
                "the link from %r to %r could not be made", self._here or OUTSIDE, peer or OUTSIDE
            )
            end.close()
            self._on_lost(number, f"it could not be made ({type(error).__name__}); the log says why", True)  # noqa: FBT003  # the fault of this side

    def _attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int) -> None:
        old = self._links.get(peer)
        if old is not None:
            old.close("another incarnation has taken its place")
        if peer is not None:
            # That an earlier incarnation was announced, maybe late, says nothing of this one.
            (self._announced.add if is_running else self._announced.discard)(peer)
        theirs = (
            {}
            if peer is None
            else {role.name: role for role in self._spec.by_name[peer].roles if role.is_exposed}
        )
        is_early: list[str] = []

        def down(reason: str) -> None:
            is_early.append(reason)
            self._lose(peer, reason)

        link = Link(
            end,
            self._porch,
            here=self._here or OUTSIDE,
            there=peer or OUTSIDE,
            theirs=theirs,
            find=self._find,
            carries=self._spec.carries,
            on_up=partial(self._up, peer),
            on_down=down,
            on_dead=self._on_dead,
            on_fault=partial(self._on_lost, number),
            resolver=self._resolver,
            check=self._check,
            pod=peer,
            packer=self._packer,
        )
        if is_early:
            # The other end was gone before we had begun.
            self._past = _sum(self._past, link.books)
        else:
            self._links[peer] = link

    def announce(self, peer: str) -> None:
        """A pod runs: publish those who stand in for its actors, now or when the link is up."""
        self._announced.add(peer)
        addresses = self._waiting.pop(peer, None)
        if addresses is not None:
            self._publish(peer, addresses)

    def ping(self, peer: str, answered: Callable[[], object]) -> None:
        """Have a pod answer over its link. Nothing happens if there is none."""
        link = self._links.get(peer)
        if link is not None:
            link.ping(answered)

    def part(self, peer: str, reason: str) -> None:
        """A pod has ended: its link is of no use, whoever may still have a copy of the other end."""
        link = self._links.get(peer)
        if link is not None:
            link.part(reason)

    def close(self, reason: str) -> None:
        """Close all links."""
        for link in list(self._links.values()):
            link.close(reason)

    @property
    def are_quiet(self) -> bool:
        """Whether everything that was sent to them has its fate."""
        return self._porch.kernel.is_quiet() and all(link.books.waiting == 0 for link in self._links.values())

    @property
    def are_answered(self) -> bool:
        """Whether they have been told what became of all that they have sent, as far as they read it."""
        return not any(link.owes for link in self._links.values())

    def link_books(self) -> LinkBooks:
        """The books of all links, now and so far."""
        links = self._past
        for link in list(self._links.values()):
            links = _sum(links, link.books)
        return links

    def books(self) -> PodBooks:
        """What became of what was sent to other processes, now and so far."""
        links = self.link_books()
        porch = self._porch.statistics()
        # What the porch has handled it has passed on: that is what the links have in their books.
        return PodBooks(
            sent=porch.sent,
            handled=links.handled,
            refused=porch.refused,
            dead=porch.dead + links.dead,
            dropped=porch.dropped + links.dropped,
            in_doubt=links.in_doubt,
            waiting=porch.waiting + links.waiting,
        )

    def _up(self, peer: str | None, addresses: Mapping[str, ActorId]) -> None:
        if peer is None:
            return
        if peer in self._announced:
            self._publish(peer, addresses)
        else:
            self._waiting[peer] = addresses

    def _publish(self, peer: str, addresses: Mapping[str, ActorId]) -> None:
        self._published[peer] = addresses
        self._registry.publish(peer, addresses)
        self._on_known(peer)

    def _lose(self, peer: str | None, reason: str) -> None:
        link = self._links.pop(peer, None)
        if link is not None:
            self._past = _sum(self._past, link.books)
        if peer is not None:
            self._announced.discard(peer)
            self._waiting.pop(peer, None)
            addresses = self._published.pop(peer, None)
            if addresses is not None:
                # Only if nobody else is there: a thread that was left behind may come back after the next incarnation has begun.
                self._registry.withdraw(peer, addresses)
        logger.debug("the link from %r to %r is down: %s", self._here or OUTSIDE, peer or OUTSIDE, reason)


def _sum(one: LinkBooks, other: LinkBooks) -> LinkBooks:
    return LinkBooks(*(mine + theirs for mine, theirs in zip(astuple(one), astuple(other), strict=True)))
