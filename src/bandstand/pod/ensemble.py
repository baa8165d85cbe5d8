"""An ensemble: one incarnation of a pod, inside one interpreter, on an event loop that somebody runs.

    ensemble = Ensemble(spec, "engine_pod", 1)
    ending = await ensemble.run()

It is the same for every thread model: the kubelet's event loop, a thread's own, the caller's, a child process's. Two loops ride
it: one for the pod's actors, whose messages to each other may be direct calls, and one, the *porch*, for those who stand in for
actors of other processes. Everything of an incarnation is made here and ends here: loops, actors, handles, links.

The program outside a troupe has an ensemble, too, without actors: its handles need a registry and a porch like everybody's.

Everything but `registry`, `handle` and `end` belongs on the thread of its event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

from bandstand.actor import Loop
from bandstand.core import LoopConfig
from bandstand.core.logs import SafeLogger
from bandstand.errors import BandstandError, InvalidArgument
from bandstand.errors.formatting import describe_exception, safe_repr
from bandstand.pod.books import PodBooks
from bandstand.pod.directory import wanted_by
from bandstand.pod.ending import Ending
from bandstand.pod.later import LoopLater
from bandstand.pod.link import Packer
from bandstand.pod.neighbours import Neighbours
from bandstand.pod.passport import Passport
from bandstand.pod.place import RolePlace
from bandstand.pod.players import Players
from bandstand.pod.registry import PodRegistry, registry_of
from bandstand.pod.vocabulary import PodPhase, ThreadModel, WhenDown

if TYPE_CHECKING:
    import socket

    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.link import Undelivered
    from bandstand.pod.spec import PodSpec, TroupeSpec

__all__ = ("Ensemble",)

logger = SafeLogger("bandstand.pod")

# How often it is looked whether a pod that is to end has nothing left to do, in seconds.
LOOK = 0.002


class Ensemble:
    """One incarnation of a pod, or the outside's part of a troupe.

    Args:
        spec: the whole troupe.
        pod: the pod's name; None for the outside.
        number: the how-manieth incarnation it is.
        on_phase: called with each phase that it comes into, and the reason, on its thread.
        on_dead: called with messages to other processes that were lost, on its thread.
        on_known: called with the name of a pod of another process when its roles can be reached, on its thread.
        on_failing: called as soon as it has failed, on its thread: its other actors end after that, which may take long.
        on_lost: called with the number of a link that has failed, the reason, and whether that is the fault of this side, on
            its thread.
        extra: handles of others that go into its directories, by name: those of nested troupes.
        registry: how its handles find others. One that outlives the incarnation, as handles that were given to others do; None for
            one that ends with it.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str | None,
        number: int,
        *,
        on_phase: Callable[[PodPhase, str], object] = lambda _phase, _reason: None,
        on_dead: Callable[[Undelivered], object] = lambda _letter: None,
        on_known: Callable[[str], object] = lambda _pod: None,
        on_failing: Callable[[Ending], object] = lambda _ending: None,
        on_lost: Callable[[int, str, bool], object] = lambda _number, _reason, _is_ours: None,
        extra: Mapping[str, object] | None = None,
        registry: PodRegistry | None = None,
    ) -> None:
        self.spec = spec
        self.number = number
        self.pod: PodSpec | None = None
        if pod is not None:
            self.pod = spec.by_name.get(pod)
            if self.pod is None:
                raise InvalidArgument(f"troupe {spec.name!r} has no pod {pod!r}")
        self.phase = PodPhase.PENDING
        self.loop = Loop(LoopConfig() if self.pod is None else self.pod.limits)
        """Where its actors live."""
        self.porch = Loop()
        """Where those live who stand in for actors of other processes."""
        self._is_holder = registry is None
        self.registry = registry or registry_of(spec, LoopLater(self.porch))
        """How its handles find others."""
        packer = Packer(spec.carries, self._why_unresolved, spec.byte_bounds)
        self.neighbours = Neighbours(
            spec,
            pod,
            self.porch,
            self.registry,
            find=self._own,
            resolver=self.resolve,
            check=self._why_unresolved,
            packer=packer,
            on_dead=on_dead,
            on_known=on_known,
            on_lost=on_lost,
        )
        """Those it has links with."""
        self._visible = spec.visible_to(pod)
        self._pack = packer.pack
        self._extra = dict(extra or {})
        self._on_phase = on_phase
        self._on_failing = on_failing
        self.players: Players | None = None
        """Its actors; None for the outside."""
        if self.pod is not None:
            self.players = Players(self.pod, self.loop, self.registry, self._play, self._end)
        self._over: asyncio.Future[Ending] | None = None
        self._early: Ending | None = None
        self._final: PodBooks | None = None

    # -- handles ---------------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The pod's name, for people."""
        return "outside" if self.pod is None else self.pod.name

    def handle(self, role: str, policy: WhenDown | None = None, timeout_ms: float | None = None) -> Handle:
        """A handle of a role that is to be seen from here. From any thread.

        Raises:
            InvalidArgument: it is not to be seen, or there is none.
        """
        if role not in self._visible:
            pod = self.spec.pod_of(role)
            raise InvalidArgument(
                f"role {role!r} is in pod {pod.name!r} and not exposed: {self.name!r} cannot have a handle of it"
            )
        pod, known = self._visible[role]
        place = RolePlace(
            self.registry,
            pod.name,
            role,
            known.kind,
            pod.when_down if policy is None else policy,
            pod.down_ms if timeout_ms is None else timeout_ms,
            self._pack if self._is_apart(pod) else None,
        )
        actor = self.registry.find(pod.name, role)
        handle = self.loop.handle_at(known.kind, place, name=role, ask_ms=known.ask_ms, actor=actor)
        self.registry.enlist(handle)
        return handle

    def resolve(self, *fields: Any) -> Handle:
        """A handle for the fields of a passport that has come from another process. From any thread.

        Raises:
            InvalidArgument: it is of another troupe, or of a role or a class that is not to be seen from here.
        """
        passport = Passport(*fields)
        why = self._why_unresolved(passport, None if self.pod is None else self.pod.name)
        if why is not None:
            raise InvalidArgument(f"{passport} means nothing here: {why}")
        return self.handle(passport.role, passport.when_down, passport.down_ms)

    def _why_unresolved(self, passport: Passport, pod: str | None) -> str | None:
        """Why a pod of this troupe, or the program outside for None, could not resolve a passport; None if it can."""
        spec = self.spec
        if passport.troupe != spec.identity.token:
            return (
                f"it belongs to another troupe than {safe_repr(spec.identity.path or spec.name)}, whose processes know only their own: send "
                f"what the actor is asked for, or an actor of this troupe that passes it on"
            )
        receiver = "the program outside" if pod is None else f"pod {pod!r}"
        found = spec.visible_to(pod).get(passport.role)
        if found is None:
            homes = [each.name for each in spec.pods for role in each.roles if role.name == passport.role]
            if not homes:
                # A process knows of other pods only what they expose.
                return f"there is no role {safe_repr(passport.role)} that {receiver} can see"
            return f"the role is in pod {safe_repr(homes[0])} and not exposed, so {receiver} cannot have a handle of it: expose it"
        if found[1].kind is not passport.kind:
            return f"the role is played by {found[1].kind.__qualname__} there, and the handle is of {passport.kind.__qualname__}"
        return None

    def _is_apart(self, pod: PodSpec) -> bool:
        """Whether a pod is in another process than this one."""
        mine = ThreadModel.MAIN if self.pod is None else self.pod.thread
        return pod.name != self.name and ThreadModel.PROCESS in {pod.thread, mine}

    @property
    def addresses(self) -> Mapping[str, ActorId]:
        """Who plays what, of the pod's own roles."""
        return {} if self.players is None else dict(self.players.addresses)

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """The same, of those that others may see."""
        return {name: actor for name, actor in self.addresses.items() if self._visible[name][1].is_exposed}

    # -- life ------------------------------------------------------------------------------------------------------------------

    async def run(self) -> Ending:
        """Play until the end; how it has ended. It raises nothing but a cancellation."""
        self._over = asyncio.get_running_loop().create_future()
        try:
            async with AsyncExitStack() as stack:
                # The porch outlives the actors: what they say at their end still goes out.
                await stack.enter_async_context(self.porch)
                stack.callback(self.neighbours.close, f"pod {self.name!r} has ended")
                await stack.enter_async_context(self.loop)
                await self._begin()
                ending = await self._over
        except BandstandError as error:
            # A supervisor inside that nobody is above has given up; or the runtime itself cannot go on.
            ending = Ending(PodPhase.FAILED, describe_exception(error), "", error)
        finally:
            if self._is_holder:
                self.registry.close(f"its holder, {self.name!r}, has ended")
            self._final = self.books()
        self._enter(ending.phase, ending.reason)
        return ending

    def end(self, ending: Ending) -> None:
        """Have it end at once, like this: whatever its actors have not handled is lost. The first to say so counts. From any thread."""
        if not self.porch.kernel.is_closed:
            self.porch.kernel.inbox.call_soon(partial(self._end, ending))
        if self._over is None:
            self._early = self._early or ending
        else:
            # The porch is looked at only between two ticks of the actors' loop, and then the event loop has a turn or two to go.
            self.loop.kernel.halt()

    async def stop(self, within_ms: float) -> None:
        """Have it handle what it has and accept nothing more; what is left when the time is up is lost."""
        if self.phase is not PodPhase.RUNNING:
            self._end(Ending(PodPhase.COMPLETED, "stopped before it ran"))
            return
        self._enter(PodPhase.TERMINATING, "")
        over = self._over
        assert over is not None
        try:
            async with asyncio.timeout(within_ms / 1000):
                if self.players is None:
                    self._end(Ending(PodPhase.COMPLETED, "stopped"))
                else:
                    await self._drain(self.players)
                await asyncio.wait([over])
        except TimeoutError:
            reason = f"stopped; {self.loop.statistics().waiting} messages were left"
            logger.warning("pod %r had %g ms to handle what it had: %s", self.name, within_ms, reason)
            self._end(Ending(PodPhase.COMPLETED, reason))

    async def _drain(self, players: Players) -> None:
        """Have everybody handle what there is. Nobody is closed before all are quiet: another may still have something to say to him."""
        players.shut()
        # Quiet is the absence of everything: to look now and then is simpler than to have everything report its end.
        while not (players.are_quiet and self.neighbours.are_answered) and not self._is_over():  # noqa: ASYNC110  # see above
            await asyncio.sleep(LOOK)
        players.close()

    def poll_once(self) -> PodPhase:
        """Have its actors handle what waits, once, by priority and within the budgets, and then park; its phase."""
        if self.phase is PodPhase.RUNNING and not self.loop.kernel.is_closed:
            self.loop.poll_once()
        return self.phase

    # -- others ----------------------------------------------------------------------------------------------------------------

    def attach(
        self, peer: str | None, end: socket.socket, *, is_running: bool = True, number: int = 0
    ) -> None:
        """Take one end of a link to another pod, or to the outside. One that does not run yet is to be announced."""
        self.neighbours.attach(peer, end, is_running=is_running, number=number)

    def announce(self, peer: str) -> None:
        """Another pod, to which there is a link, runs now."""
        self.neighbours.announce(peer)

    def detach(self, peer: str, reason: str) -> None:
        """Another pod has ended: if there is a link to it, that is of no use any more."""
        self.neighbours.part(peer, reason)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing waits for its actors, none is at anything, and nothing that was sent from here is under way."""
        return self.loop.kernel.is_quiet() and self.neighbours.are_quiet and self.registry.waiting == 0

    def books(self) -> PodBooks:
        """What became of the messages to its actors, and of those it has sent to other processes; when it is over, of all."""
        if self._final is not None:
            return self._final
        own = self.loop.statistics()
        home = PodBooks(own.sent, own.handled, own.refused, own.dead, own.dropped, 0, own.waiting)
        held = self.registry.books() if self._is_holder else PodBooks()
        return home + held + self.neighbours.books()

    def last_books(self) -> PodBooks:
        """The same of one that is left behind, because its thread is stuck in a handler. From any thread.

        What waits there is dead: its loops are closed. What the handler is at, and what other processes have not answered, is in doubt.
        """
        if self._final is not None:
            # It has come back meanwhile.
            return self._final
        own, is_at_message = self.loop.kernel.counts_threadsafe()
        porch, _ = self.porch.kernel.counts_threadsafe()
        links = self.neighbours.link_books()
        at_hand = int(is_at_message)
        home = PodBooks(
            sent=own["sent"],
            handled=own["handled"] - at_hand,
            refused=own["refused"],
            dead=own["dead"] + own["waiting"],
            dropped=own["dropped"],
            in_doubt=at_hand,
        )
        away = PodBooks(
            sent=porch["sent"],
            handled=links.handled,
            refused=porch["refused"],
            dead=porch["dead"] + porch["waiting"] + links.dead,
            dropped=porch["dropped"] + links.dropped,
            in_doubt=links.in_doubt + links.waiting,
        )
        held = self.registry.books() if self._is_holder else PodBooks()
        return home + away + held

    def waiting(self) -> Mapping[str, int]:
        """How many messages wait for each of its roles."""
        known = (
            {node.actor: node.waiting for node in self.loop.tree()} if not self.loop.kernel.is_closed else {}
        )
        return {role: known.get(actor, 0) for role, actor in self.addresses.items()}

    def _own(self, role: str) -> Handle | None:
        return None if self.players is None else self.players.handles.get(role)

    # -- inside ----------------------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self.loop.allow_direct_calls()
        if self.players is None:
            self._enter(PodPhase.RUNNING, "")
        else:
            self.players.begin({name: self._known(name) for name in self._wanted()})
            if self.players.addresses and not self._is_over():
                # To each other they are there: what is sent to one that is still being started waits for it.
                self.registry.publish(self.name, self.addresses)
        if self._early is not None:
            self._end(self._early)

    def _wanted(self) -> dict[str, None]:
        """The names in the directories of its roles, in order: only of these are handles made."""
        names: dict[str, None] = {}
        assert self.pod is not None
        for role in self.pod.roles:
            for wanted in wanted_by(role.args, role.kwargs):
                names |= dict.fromkeys(
                    (*self._visible, *self._extra) if wanted.names is None else wanted.names
                )
        return names

    def _known(self, name: str) -> object:
        """What a name stands for in its directories."""
        return self._extra[name] if name in self._extra else self.handle(name)

    def _play(self) -> None:
        """All have started."""
        if self.phase is PodPhase.PENDING and not self._is_over():
            self._enter(PodPhase.RUNNING, "")

    def _enter(self, phase: PodPhase, reason: str) -> None:
        self.phase = phase
        self._on_phase(phase, reason)

    def _is_over(self) -> bool:
        return self._over is not None and self._over.done()

    def _end(self, ending: Ending) -> None:
        if self._over is not None and not self._over.done():
            if ending.is_failure:
                # First, while this thread still answers: the actors that are to end now may block it.
                self._on_failing(ending)
            self._over.set_result(ending)
