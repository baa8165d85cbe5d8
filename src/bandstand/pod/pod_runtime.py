"""The runtime of a pod: one incarnation, inside one interpreter, on one event loop.

    runtime = PodRuntime(spec, "engine_pod", 1)
    ending = await runtime.run()

It is the same for every thread model; only the event loop differs: the controller's, a thread's, the caller's, or that of a child
process. Two loops run on it: one for the actors of the pod, whose messages to each other may be direct calls, and the *proxy loop*,
for the remote proxies, which forward messages to actors of other processes. The runtime makes both loops, the actors, the handles
and the links, and ends them.

The calling program has a runtime too, without actors: its handles need an address book and a proxy loop like those of a pod.

Everything except `address_book`, `handle`, `resolve`, `kill` and `abandoned_stats` belongs on the thread of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import astuple, replace
from functools import partial
from typing import TYPE_CHECKING, Any, final

from bandstand.actor import ActorSystem, id_of
from bandstand.actor.actor import has_park_hook
from bandstand.actor.when_down import WhenDown
from bandstand.core import ActorStatus, ChildExit, ChildStart, Context, ExitReason, LoopConfig
from bandstand.core.logs import SafeLogger
from bandstand.errors import BandstandError, InvalidArgumentError, StartError
from bandstand.errors.formatting import describe_exception, safe_repr
from bandstand.errors.validation import to_ms
from bandstand.pod.address_book import AddressBook, RoleRef, address_book_for
from bandstand.pod.directory import fill_directories, requests_in
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.handle_pickling import HandleToken
from bandstand.pod.link import Link, LinkStats, Packer
from bandstand.pod.replicas import ReplicaPool, key_packing
from bandstand.pod.restart import PodEnding
from bandstand.pod.status import PodStats
from bandstand.pod.threads import call_later_on_loop

if TYPE_CHECKING:
    import socket

    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.handle_pickling import HandleCheck, HandleResolver
    from bandstand.pod.link import Undelivered
    from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec

__all__ = ("CALLER", "PodActors", "PodLinks", "PodRuntime", "describe_pod")

logger = SafeLogger("bandstand.pod")

CALLER = "caller"
"""The name of the calling program, at both ends of a link."""

# How often a pod that is stopping checks whether it has nothing left to do, in seconds.
DRAIN_POLL_S = 0.002


def describe_pod(pod: str | None) -> str:
    """Return the name of a pod (None: the caller), for error texts."""
    return "the calling program" if pod is None else f"pod {safe_repr(pod)}"


class PodRuntime:
    """One incarnation of a pod, or the caller's part of a deployment.

    Args:
        spec: the whole deployment.
        pod: the name of the pod; None for the caller.
        number: the number of the incarnation, from 1.
        on_phase: called with each phase that it enters, and the reason, on its thread.
        on_undelivered: called with messages to other processes that were lost, on its thread.
        on_reachable: called with the name of a pod of another process when its roles can be reached, on its thread.
        on_failing: called as soon as it fails, on its thread. Its other actors end after that, which may take long.
        on_link_lost: called with the number of a link that failed, the reason, and whether the failure is the fault of this
            side, on its thread.
        extra: other objects for the directories of its actors, by name: the handles of nested deployments.
        address_book: what its handles look in. One that outlives the incarnation, as handles that were passed on do; None for one
            that is closed when the incarnation ends.

    Raises:
        InvalidArgumentError: the deployment has no such pod.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str | None,
        number: int,
        *,
        on_phase: Callable[[PodPhase, str], object] = lambda _phase, _reason: None,
        on_undelivered: Callable[[Undelivered], object] = lambda _message: None,
        on_reachable: Callable[[str], object] = lambda _pod: None,
        on_failing: Callable[[PodEnding], object] = lambda _ending: None,
        on_link_lost: Callable[[int, str, bool], object] = lambda _number, _reason, _is_ours: None,
        extra: Mapping[str, object] | None = None,
        address_book: AddressBook | None = None,
    ) -> None:
        self.spec = spec
        self.number = number
        self.pod: PodSpec | None = None
        if pod is not None:
            self.pod = spec.by_name.get(pod)
            if self.pod is None:
                raise InvalidArgumentError(f"troupe {spec.name!r} has no pod {pod!r}")
        self.phase = PodPhase.PENDING
        self.loop = ActorSystem(LoopConfig() if self.pod is None else self.pod.limits)
        """The loop of its actors."""
        self.proxy_loop = ActorSystem(LoopConfig())
        """The loop of its remote proxies."""
        self._owns_address_book = address_book is None
        self.address_book = address_book or address_book_for(spec, call_later_on_loop(self.proxy_loop))
        """What its handles look in."""
        packer = Packer(spec.carries, self._why_unresolvable, spec.byte_limits)
        self._pack = key_packing(packer, spec)
        self.proxy_loop.set_packing(self._pack)
        self.links = PodLinks(
            spec,
            pod,
            self.proxy_loop,
            self.address_book,
            find=self._own_handle,
            resolver=self.resolve,
            check=self._why_unresolvable,
            packer=packer,
            on_undelivered=on_undelivered,
            on_reachable=on_reachable,
            on_link_lost=on_link_lost,
        )
        """Its links to other processes."""
        self._visible = spec.visible_to(pod)
        self._extra = dict(extra or {})
        self._on_phase = on_phase
        self._on_failing = on_failing
        self.actors: PodActors | None = None
        """Its actors; None for the caller."""
        if self.pod is not None:
            self.actors = PodActors(self.pod, self.loop, self.address_book, self._on_started, self._end)
        self._ended: asyncio.Future[PodEnding] | None = None
        # The ending of a runtime that was killed before it ran.
        self._early_ending: PodEnding | None = None
        self._final_stats: PodStats | None = None

    # -- handles -----------------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the pod, for display."""
        return CALLER if self.pod is None else self.pod.name

    def handle(
        self,
        role: str,
        policy: WhenDown | None = None,
        timeout_ms: float | None = None,
        replica: PodSpec | None = None,
    ) -> Handle:
        """Make a handle of a role that is visible here. From any thread.

        Args:
            role: the role.
            policy: what to do with a message while the pod is down; None for what the pod declares.
            timeout_ms: how long a message may wait; None for what the pod declares.
            replica: for a handle of one replica of the role's pod.

        Raises:
            InvalidArgumentError: the role is not visible here, or does not exist.
        """
        if role not in self._visible:
            pod = self.spec.pod_of(role)
            raise InvalidArgumentError(
                f"role {role!r} is in pod {pod.name!r} and not exposed: {describe_pod(None if self.pod is None else self.pod.name)} cannot have a handle of it"
            )
        pod, known = self._visible[role]
        if replica is not None:
            pod = replica
        role_ref = RoleRef(
            self.address_book,
            pod.name,
            role,
            known.kind,
            pod.when_down if policy is None else policy,
            to_ms("down_timeout", pod.down_timeout) if timeout_ms is None else timeout_ms,
            self._pack if self._is_other_process(pod) else None,
        )
        actor = self.address_book.find(pod.name, role)
        handle = self.loop.handle_at(
            known.kind, role_ref, name=role, ask_timeout=known.ask_timeout, actor=actor
        )
        self.address_book.track(handle)
        return handle

    def resolve(self, *fields: Any) -> Handle:
        """Make a handle for the fields of a `HandleToken` from another process. From any thread.

        Raises:
            InvalidArgumentError: the token is of another deployment, or of a role or a class that is not visible here.
        """
        token = HandleToken(*fields)
        problem = self._why_unresolvable(token, None if self.pod is None else self.pod.name)
        if problem is not None:
            raise InvalidArgumentError(f"{token} cannot be used here: {problem}")
        member = self.spec.by_name[token.pod] if token.pod else None
        replica = member if member is not None and member.replica_of is not None else None
        return self.handle(token.role, token.when_down, token.down_ms, replica)

    def _why_unresolvable(self, token: HandleToken, pod: str | None) -> str | None:
        """Return why a pod of this deployment (None: the calling program) cannot resolve a token; None if it can."""
        spec = self.spec
        if token.deployment != spec.identity.token:
            return (
                f"it belongs to another troupe than {safe_repr(spec.identity.path or spec.name)}, whose processes only know their own "
                f"roles: send the result of a call instead, or a handle of an actor of this troupe that forwards calls"
            )
        receiver = describe_pod(pod)
        found = spec.visible_to(pod).get(token.role)
        if found is None:
            owners = [each.name for each in spec.pods for role in each.roles if role.name == token.role]
            if not owners:
                # A process only knows the exposed roles of other pods.
                return f"there is no role {safe_repr(token.role)} that {receiver} can see"
            return f"the role is in pod {safe_repr(owners[0])} and not exposed, so {receiver} cannot have a handle of it: expose it"
        if found[1].kind is not token.kind:
            return f"there the role is a {found[1].kind.__qualname__}, and the handle is of a {token.kind.__qualname__}"
        return self._why_wrong_replica(token, pod, found[0])

    def _why_wrong_replica(self, token: HandleToken, pod: str | None, home: PodSpec) -> str | None:
        """Return why a pod cannot resolve a token because of the replicas of `home`, the pod of the role as it sees it."""
        if not token.pod or (token.pod == home.name and home.replicas is None):
            return None
        member = self.spec.by_name.get(token.pod)
        if member is None or (member.replica_of or member.name) != (home.replica_of or home.name):
            return f"there the role is in pod {safe_repr(home.name)}, and the handle is of pod {safe_repr(token.pod)}"
        # The receiver is a replica of that pod, or any of them.
        if home.replica_of is not None or home.name == pod:
            return (
                f"{describe_pod(pod)} has the role itself, and the replicas of a pod do not reach each other: let another pod pass the "
                f"messages on"
            )
        return None

    def _is_other_process(self, pod: PodSpec) -> bool:
        """Return whether a pod runs in another process than this one."""
        mine = ThreadModel.MAIN if self.pod is None else self.pod.thread
        return pod.name != self.name and ThreadModel.PROCESS in {pod.thread, mine}

    def _own_handle(self, role: str) -> Handle | None:
        return None if self.actors is None else self.actors.handles.get(role)

    @property
    def addresses(self) -> Mapping[str, ActorId]:
        """The actors of the pod, by role."""
        return {} if self.actors is None else dict(self.actors.addresses)

    @property
    def exposed(self) -> Mapping[str, ActorId]:
        """The actors of its exposed roles."""
        return {name: actor for name, actor in self.addresses.items() if self._visible[name][1].is_exposed}

    # -- running -----------------------------------------------------------------------------------------------------------------

    async def run(self) -> PodEnding:
        """Run until the end, and return how it ended. Raises nothing but a cancellation."""
        self._ended = asyncio.get_running_loop().create_future()
        try:
            async with AsyncExitStack() as stack:
                # The proxy loop outlives the actors: messages that they send while they end still go out.
                await stack.enter_async_context(self.proxy_loop)
                stack.callback(self.links.close, f"pod {self.name!r} has ended")
                await stack.enter_async_context(self.loop)
                self._start_actors()
                ending = await self._ended
        except BandstandError as error:
            # A supervisor without a parent has given up, or the runtime itself cannot go on.
            ending = PodEnding(PodPhase.FAILED, describe_exception(error), "", error)
        finally:
            if self._owns_address_book:
                self.address_book.close(f"{self.name!r}, which made the handle, has ended")
            self._final_stats = self.stats()
        self._enter(ending.phase, ending.reason)
        return ending

    def kill(self, ending: PodEnding) -> None:
        """End it at once, with this ending; messages that its actors have not handled are lost. From any thread.

        The first ending counts.
        """
        if not self.proxy_loop.kernel.is_closed:
            self.proxy_loop.kernel.inbox.call_soon(partial(self._end, ending))
        if self._ended is None:
            self._early_ending = self._early_ending or ending
        else:
            # Without this, the actors' loop would first finish its tick, and maybe another one.
            self.loop.kernel.halt()

    async def stop(self, within_ms: float) -> None:
        """Stop accepting messages, handle those that are there, and end. Messages left after `within_ms` are lost."""
        if self.phase is not PodPhase.RUNNING:
            self._end(PodEnding(PodPhase.COMPLETED, "stopped before it ran"))
            return
        self._enter(PodPhase.TERMINATING, "")
        ended = self._ended
        assert ended is not None
        try:
            async with asyncio.timeout(within_ms / 1000):
                if self.actors is None:
                    self._end(PodEnding(PodPhase.COMPLETED, "stopped"))
                else:
                    await self._drain(self.actors)
                await asyncio.wait([ended])
        except TimeoutError:
            reason = f"stopped; {self.loop.statistics().waiting} messages were left"
            logger.warning(
                "pod %r did not handle all its messages within %g ms: %s", self.name, within_ms, reason
            )
            self._end(PodEnding(PodPhase.COMPLETED, reason))

    async def _drain(self, actors: PodActors) -> None:
        """Let all actors handle their messages. None is closed before all are idle: another one may still send to it."""
        actors.close_intake()
        # Idle means that many things are absent. Polling is simpler than an event for each of them.
        while not (actors.are_idle and self.links.are_acks_sent) and not self._has_ended():  # noqa: ASYNC110  # see above
            await asyncio.sleep(DRAIN_POLL_S)
        actors.close_mailboxes()

    def poll_once(self) -> PodPhase:
        """Run one tick of its actors, with the tick hooks; return the phase."""
        if self.phase is PodPhase.RUNNING and not self.loop.kernel.is_closed:
            self.loop.poll_once()
        return self.phase

    def _start_actors(self) -> None:
        self.loop.allow_direct_calls()
        if self.actors is None:
            self._enter(PodPhase.RUNNING, "")
        else:
            self.actors.start({name: self._directory_entry(name) for name in self._directory_names()})
            if self.actors.addresses and not self._has_ended():
                # Its own actors may send to each other now: messages to an actor that is starting wait for it.
                self.address_book.publish(self.name, self.addresses)
        if self._early_ending is not None:
            self._end(self._early_ending)

    def _directory_names(self) -> dict[str, None]:
        """Return the names in the directories of its roles, in order: handles are made for these only."""
        names: dict[str, None] = {}
        assert self.pod is not None
        for role in self.pod.roles:
            for wanted in requests_in(role.args, role.kwargs):
                names |= dict.fromkeys(
                    (*self._visible, *self._extra) if wanted.names is None else wanted.names
                )
        return names

    def _directory_entry(self, name: str) -> object:
        return self._extra[name] if name in self._extra else self.handle(name)

    def _on_started(self) -> None:
        if self.phase is PodPhase.PENDING and not self._has_ended():
            self._enter(PodPhase.RUNNING, "")

    def _enter(self, phase: PodPhase, reason: str) -> None:
        self.phase = phase
        self._on_phase(phase, reason)

    def _has_ended(self) -> bool:
        return self._ended is not None and self._ended.done()

    def _end(self, ending: PodEnding) -> None:
        if self._ended is not None and not self._ended.done():
            if ending.is_failure:
                # First, while this thread still responds: the actors that end now may block it.
                self._on_failing(ending)
            self._ended.set_result(ending)

    # -- other pods --------------------------------------------------------------------------------------------------------------

    def attach(
        self, peer: str | None, end: socket.socket, *, is_running: bool = True, number: int = 0
    ) -> None:
        """Take one end of a link to another pod (None: the caller). A peer that does not run yet is announced later."""
        self.links.attach(peer, end, is_running=is_running, number=number)

    def announce(self, peer: str) -> None:
        """Note that the pod at the other end of a link runs now."""
        self.links.announce(peer)

    def detach(self, peer: str, reason: str) -> None:
        """Drop the link to a pod that has ended, if there is one."""
        self.links.detach(peer, reason)

    # -- stats -------------------------------------------------------------------------------------------------------------------

    @property
    def is_quiet(self) -> bool:
        """Whether its actors are idle, and everything that was sent from here has arrived or failed."""
        return self.loop.kernel.is_quiet() and self.links.are_idle and self.address_book.waiting == 0

    def stats(self) -> PodStats:
        """Return the counts of the messages to its actors, and of those sent to other processes; final once it has ended."""
        if self._final_stats is not None:
            return self._final_stats
        counts = self.loop.statistics()
        own = PodStats(
            counts.sent, counts.handled, counts.refused, counts.dead, counts.dropped, 0, counts.waiting
        )
        held = self.address_book.stats() if self._owns_address_book else PodStats()
        return own + held + self.links.stats()

    def abandoned_stats(self) -> PodStats:
        """Return the counts of a runtime that was abandoned, because its thread is stuck in a handler. From any thread.

        Waiting messages count as dead: the loops are closed. The message that is being handled, and those that other processes have
        not acknowledged, count as in doubt.
        """
        if self._final_stats is not None:
            # Its thread has returned meanwhile.
            return self._final_stats
        own, is_handling = self.loop.kernel.counts_threadsafe()
        proxies, _ = self.proxy_loop.kernel.counts_threadsafe()
        links = self.links.link_stats()
        in_handler = int(is_handling)
        local = PodStats(
            sent=own["sent"],
            handled=own["handled"] - in_handler,
            refused=own["refused"],
            dead=own["dead"] + own["waiting"],
            dropped=own["dropped"],
            in_doubt=in_handler,
        )
        remote = PodStats(
            sent=proxies["sent"],
            handled=links.handled,
            refused=proxies["refused"],
            dead=proxies["dead"] + proxies["waiting"] + links.dead,
            dropped=proxies["dropped"] + links.dropped,
            in_doubt=links.in_doubt + links.waiting,
        )
        held = self.address_book.stats() if self._owns_address_book else PodStats()
        pools = self.links.pool_stats()
        # What waited for a replica is dead with its dispatcher.
        pools = replace(pools, dead=pools.dead + pools.waiting, waiting=0)
        return local + remote + pools + held

    def waiting(self) -> Mapping[str, int]:
        """Return how many messages wait for each of its roles."""
        known = (
            {node.actor: node.waiting for node in self.loop.tree()} if not self.loop.kernel.is_closed else {}
        )
        return {role: known.get(actor, 0) for role, actor in self.addresses.items()}


# -- actors ----------------------------------------------------------------------------------------------------------------------


@final
class PodActors:
    """The actors of one incarnation of a pod: starts them, and decides what their exits mean. On the thread of the pod.

    Args:
        pod: the spec of the pod.
        loop: the loop to start them on.
        address_book: what the actors' handles of themselves look in.
        on_started: called when all have started.
        on_end: called with the first failure, or when all have exited.
    """

    def __init__(
        self,
        pod: PodSpec,
        loop: ActorSystem,
        address_book: AddressBook,
        on_started: Callable[[], object],
        on_end: Callable[[PodEnding], object],
    ) -> None:
        self._pod = pod
        self._loop = loop
        self._address_book = address_book
        self._on_started = on_started
        self._on_end = on_end
        self.addresses: dict[str, ActorId] = {}
        """The actors, by role."""
        self.handles: dict[str, Handle] = {}
        """Their handles, which are valid for this incarnation only."""
        self._starting: set[ActorId] = set()
        self._with_park_hook: list[ActorId] = []
        # All have been spawned, and `on_started` was not called yet.
        self._is_waiting_for_starts = False

    def start(self, directory: Mapping[str, object]) -> None:
        """Start the actors, in order. `directory` has the objects for their directories, by name."""
        supervisor = self._loop.spawn_raw(self._on_signal, name=f"pod {self._pod.name}")
        for role in self._pod.roles:
            if not self._start_actor(role, supervisor, directory):
                return
        if self._with_park_hook:
            self._loop.runner.set_tick_hook(self._call_park_hooks)
        self._is_waiting_for_starts = True
        self._check_started()

    def close_intake(self) -> None:
        """Accept no messages from outside; the actors handle what they have, and what they send each other."""
        self._loop.kernel.is_internal_only = True

    @property
    def are_idle(self) -> bool:
        """Whether no message waits for any of them, and none is handling one."""
        return self._loop.kernel.is_quiet()

    def close_mailboxes(self) -> None:
        """Let each actor exit once it has handled the messages it has."""
        for actor in self.addresses.values():
            if actor.is_alive and not self._loop.kernel.is_closed:
                self._loop.kernel.actors.close_mailbox(actor)
        self._check_all_exited()

    def _start_actor(self, role: RoleSpec, supervisor: ActorId, directory: Mapping[str, object]) -> bool:
        args, kwargs = fill_directories(role.args, role.kwargs, directory)
        options = self._loop.options(
            name=role.name,
            mailbox=role.mailbox,
            overflow=role.overflow,
            ask_timeout=role.ask_timeout,
            supervisor=supervisor,
        )
        try:
            handle: Any = options.spawn(role.kind, *args, **kwargs)
        except StartError as error:
            cause = error.__cause__
            self._on_end(
                PodEnding(PodPhase.FAILED, f"its on_start() raised {safe_repr(cause)}", role.name, cause)
            )
            return False
        except Exception as error:  # noqa: BLE001  # whatever a constructor raises is a failure of its pod
            self._on_end(
                PodEnding(PodPhase.FAILED, f"its constructor raised {safe_repr(error)}", role.name, error)
            )
            return False
        actor = id_of(handle)
        self.handles[role.name] = handle
        self.addresses[role.name] = actor
        self._set_ref(actor)
        if has_park_hook(role.kind):
            self._with_park_hook.append(actor)
        if self._loop.status(actor) is ActorStatus.INIT:
            self._starting.add(actor)
        return True

    def _on_signal(self, _ctx: Context[None], signal: object) -> None:
        """Handle the start and exit messages of the actors."""
        if isinstance(signal, ChildStart):
            self._starting.discard(signal.child)
            self._set_ref(signal.child)
            self._check_started()
        elif isinstance(signal, ChildExit):
            if signal.reason is ExitReason.NORMAL:
                self._check_all_exited()
                return
            why = f"reason {signal.reason.name}" if signal.cause is None else safe_repr(signal.cause)
            role = self._role_of(signal.child)
            self._on_end(PodEnding(PodPhase.FAILED, f"it failed with {why}", role, signal.cause))

    def _set_ref(self, actor: ActorId) -> None:
        """Make the actor's handle of itself (`me`) one of its role: if it is passed on, it stays valid when the pod restarts."""
        role = self._role_of(actor)
        pod = self._pod
        kind = next(each.kind for each in pod.roles if each.name == role)
        self._loop.set_ref(
            actor,
            RoleRef(
                self._address_book,
                pod.name,
                role,
                kind,
                pod.when_down,
                to_ms("down_timeout", pod.down_timeout),
            ),
        )

    def _role_of(self, actor: ActorId) -> str:
        return next((name for name, known in self.addresses.items() if known == actor), "")

    def _check_started(self) -> None:
        if self._is_waiting_for_starts and not self._starting:
            self._is_waiting_for_starts = False
            self._on_started()

    def _check_all_exited(self) -> None:
        if not any(actor.is_alive for actor in self.addresses.values()):
            self._on_end(PodEnding(PodPhase.COMPLETED, "all its actors have ended"))

    def _call_park_hooks(self) -> None:
        """Call `on_park` of the actors that have it, after each tick."""
        for actor in self._with_park_hook:
            if not actor.is_alive or actor in self._starting:
                continue
            try:
                self._loop.instance_of(actor).on_park()
            except Exception as error:  # noqa: BLE001  # a failure of the actor, as in any of its handlers
                self._loop.fail_actor(actor, error)


# -- links -----------------------------------------------------------------------------------------------------------------------


@final
class PodLinks:
    """The links of one runtime to other processes. On the thread of the pod.

    Args:
        spec: the whole deployment.
        pod: the pod at this end; None for the caller.
        proxy_loop: the loop of the remote proxies.
        address_book: where the remote proxies are published.
        find: returns the handle of a role of this pod.
        resolver: makes handles that arrive as arguments.
        check: returns why a pod could not resolve a handle that is sent to it.
        packer: packs messages to other processes.
        on_undelivered: called with messages that were lost.
        on_reachable: called with the name of a pod when its actors can be reached.
        on_link_lost: called with the number of a link that failed, the reason, and whether the failure is the fault of this side.
    """

    def __init__(
        self,
        spec: TroupeSpec,
        pod: str | None,
        proxy_loop: ActorSystem,
        address_book: AddressBook,
        *,
        find: Callable[[str], Handle | None],
        resolver: HandleResolver,
        check: HandleCheck,
        packer: Packer,
        on_undelivered: Callable[[Undelivered], object],
        on_reachable: Callable[[str], object],
        on_link_lost: Callable[[int, str, bool], object],
    ) -> None:
        self._spec = spec
        self._name = pod or CALLER
        self._proxy_loop = proxy_loop
        self._address_book = address_book
        self._find = find
        self._resolver = resolver
        self._check = check
        self._packer = packer
        self._on_undelivered = on_undelivered
        self._on_reachable = on_reachable
        self._on_link_lost = on_link_lost
        self._links: dict[str | None, Link] = {}
        # The proxies of pods that are linked and have not been announced.
        self._unannounced: dict[str, Mapping[str, ActorId]] = {}
        self._announced: set[str] = set()
        # The proxies that were published.
        self._published: dict[str, Mapping[str, ActorId]] = {}
        # The counts of links that are down.
        self._past = LinkStats()
        # For each replicated pod that can be reached from here.
        self._pools = {
            each.name: ReplicaPool(
                each, [member.name for member in each.members], proxy_loop, address_book, packer
            )
            for each in spec.pods
            if each.replicas is not None and pod not in {member.name for member in each.members}
        }

    def __contains__(self, peer: object) -> bool:
        return peer in self._links

    def attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int = 0) -> None:
        """Take one end of a link to a pod (None: the caller). Its actors are published once it runs and the link is up.

        `number` is the number that the controller gave the link.
        """
        try:
            self._attach(peer, end, is_running=is_running, number=number)
        except Exception as error:
            # Out of memory, for example. Without this link the two pods could never reach each other.
            logger.exception("the link from %r to %r could not be made", self._name, peer or CALLER)
            end.close()
            reason = f"it could not be made ({type(error).__name__}); see the log"
            self._on_link_lost(number, reason, True)  # noqa: FBT003  # the fault of this side

    def _attach(self, peer: str | None, end: socket.socket, *, is_running: bool, number: int) -> None:
        old = self._links.get(peer)
        if old is not None:
            old.close("replaced by the link of another incarnation")
        if peer is not None:
            # The announcement of an earlier incarnation, which may be late, says nothing about this one.
            (self._announced.add if is_running else self._announced.discard)(peer)
        theirs = (
            {}
            if peer is None
            else {role.name: role for role in self._spec.by_name[peer].roles if role.is_exposed}
        )
        down_reasons: list[str] = []

        def on_down(reason: str) -> None:
            down_reasons.append(reason)
            self._remove(peer, reason)

        link = Link(
            end,
            self._proxy_loop,
            here=self._name,
            there=peer or CALLER,
            theirs=theirs,
            find=self._find,
            carries=self._spec.carries,
            on_up=partial(self._on_up, peer),
            on_down=on_down,
            on_dead=self._on_undelivered,
            on_fault=partial(self._on_link_lost, number),
            resolver=self._resolver,
            check=self._check,
            pod=peer,
            packer=self._packer,
            # Those of a replicated pod are those of its dispatchers.
            limits_bytes=self._pool_of(peer) is None,
        )
        if down_reasons:
            # The peer had closed its end already.
            self._past = _add(self._past, link.stats())
        else:
            self._links[peer] = link

    def announce(self, peer: str) -> None:
        """Note that a pod runs: publish its remote proxies, now or when the link is up."""
        self._announced.add(peer)
        addresses = self._unannounced.pop(peer, None)
        if addresses is not None:
            self._publish(peer, addresses)

    def retire(self, peer: str, reason: str) -> None:
        """Note that a pod will not be restarted."""
        pool = self._pool_of(peer)
        if pool is not None:
            pool.retire(peer, reason)

    def ping(self, peer: str, callback: Callable[[], object]) -> None:
        """Call `callback` when a pod has answered over its link. Without a link nothing happens."""
        link = self._links.get(peer)
        if link is not None:
            link.ping(callback)

    def detach(self, peer: str, reason: str) -> None:
        """Drop the link to a pod that has ended, even if another process still has a copy of the other end."""
        link = self._links.get(peer)
        if link is not None:
            link.close_after_peer(reason)

    def close(self, reason: str) -> None:
        """Close all links."""
        for link in list(self._links.values()):
            link.close(reason)

    @property
    def are_idle(self) -> bool:
        """Whether everything that was sent over them has arrived or failed."""
        return (
            self._proxy_loop.kernel.is_quiet()
            and all(link.stats().waiting == 0 for link in self._links.values())
            and all(pool.is_idle for pool in self._pools.values())
        )

    @property
    def are_acks_sent(self) -> bool:
        """Whether the peers have received an acknowledgement for each message that was read."""
        return not any(link.has_unreported for link in self._links.values())

    def link_stats(self) -> LinkStats:
        """Return the counts of all links, including those that are down."""
        links = self._past
        for link in list(self._links.values()):
            links = _add(links, link.stats())
        return links

    def stats(self) -> PodStats:
        """Return the counts of the messages to other processes."""
        links = self.link_stats()
        proxies = self._proxy_loop.statistics()
        # What the proxies have handled, they have forwarded: the links count it.
        return (
            PodStats(
                sent=proxies.sent,
                handled=links.handled,
                refused=proxies.refused,
                dead=proxies.dead + links.dead,
                dropped=proxies.dropped + links.dropped,
                in_doubt=links.in_doubt,
                waiting=proxies.waiting + links.waiting,
            )
            + self.pool_stats()
        )

    def pool_stats(self) -> PodStats:
        """Return what to add to the counts of the proxy loop and the links for messages to replicated pods."""
        return sum((pool.stats() for pool in self._pools.values()), PodStats())

    def _pool_of(self, peer: str | None) -> ReplicaPool | None:
        """Return the pool that a pod is a replica of; None if it is none."""
        member = None if peer is None else self._spec.by_name.get(peer)
        return None if member is None or member.replica_of is None else self._pools.get(member.replica_of)

    def _on_up(self, peer: str | None, addresses: Mapping[str, ActorId]) -> None:
        if peer is None:
            return
        if peer in self._announced:
            self._publish(peer, addresses)
        else:
            self._unannounced[peer] = addresses

    def _publish(self, peer: str, addresses: Mapping[str, ActorId]) -> None:
        self._published[peer] = addresses
        self._address_book.publish(peer, addresses)
        pool = self._pool_of(peer)
        if pool is not None:
            pool.add(peer, self._links[peer].proxies)
        self._on_reachable(peer)

    def _remove(self, peer: str | None, reason: str) -> None:
        link = self._links.pop(peer, None)
        if link is not None:
            self._past = _add(self._past, link.stats())
        if peer is not None:
            self._announced.discard(peer)
            self._unannounced.pop(peer, None)
            addresses = self._published.pop(peer, None)
            if addresses is not None:
                # Only these: an abandoned thread may return after the next incarnation was published.
                self._address_book.withdraw(peer, addresses)
            pool = self._pool_of(peer)
            if pool is not None:
                pool.remove(peer, reason)
        logger.debug("the link from %r to %r is down: %s", self._name, peer or CALLER, reason)


def _add(one: LinkStats, other: LinkStats) -> LinkStats:
    return LinkStats(*(mine + theirs for mine, theirs in zip(astuple(one), astuple(other), strict=True)))
