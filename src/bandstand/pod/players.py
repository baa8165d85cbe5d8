"""The actors of a pod: how they are started, what their ends mean, and what they do when a round is over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, final

from bandstand.actor import id_of
from bandstand.actor.schema import has_park_hook
from bandstand.core import ActorStatus, ChildExit, ChildStart, Context, ExitReason
from bandstand.errors import StartFailed
from bandstand.errors.formatting import safe_repr
from bandstand.pod.directory import filled
from bandstand.pod.ending import Ending
from bandstand.pod.place import RolePlace
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    from bandstand.actor import Loop
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.registry import PodRegistry
    from bandstand.pod.spec import PodSpec, RoleSpec

__all__ = ("Players",)


@final
class Players:
    """Those who play in one incarnation of a pod. On its thread.

    Args:
        pod: what is to be played.
        loop: where.
        registry: by what their own handles are found.
        on_born: called when all have started.
        on_end: called when the pod is over: with the first failure, or when all have ended.
    """

    def __init__(
        self,
        pod: PodSpec,
        loop: Loop,
        registry: PodRegistry,
        on_born: Callable[[], object],
        on_end: Callable[[Ending], object],
    ) -> None:
        self._pod = pod
        self._loop = loop
        self._registry = registry
        self._on_born = on_born
        self._on_end = on_end
        self.addresses: dict[str, ActorId] = {}
        """Who plays what."""
        self.handles: dict[str, Handle] = {}
        """Their handles, which know this incarnation only."""
        self._unborn: set[ActorId] = set()
        self._parking: list[ActorId] = []
        self._is_cast = False

    def begin(self, handles: Mapping[str, object]) -> None:
        """Start them, in their order; `handles` are what their directories are made of."""
        manager = self._loop.spawn(self._hear, name=f"pod {self._pod.name}")
        for role in self._pod.roles:
            if not self._start(role, manager, handles):
                return
        if self._parking:
            self._loop.runner.set_tick_hook(self._park)
        self._is_cast = True
        self._look_born()

    def shut(self) -> None:
        """Have them take nothing from outside any more: only what they have, and what they send each other meanwhile."""
        self._loop.kernel.is_internal_only = True

    @property
    def are_quiet(self) -> bool:
        """Whether nothing waits for any of them, and none is at anything."""
        return self._loop.kernel.is_quiet()

    def close(self) -> None:
        """Have each of them end when it has handled what it has."""
        for actor in self.addresses.values():
            if actor.is_alive and not self._loop.kernel.is_closed:
                self._loop.kernel.actors.close_mailbox(actor)
        self._look_over()

    def _start(self, role: RoleSpec, manager: ActorId, handles: Mapping[str, object]) -> bool:
        args, kwargs = filled(role.args, role.kwargs, handles)
        options = self._loop.options(
            name=role.name,
            mailbox_cap=role.mailbox_cap,
            overflow=role.overflow,
            ask_ms=role.ask_ms,
            supervisor=manager,
        )
        try:
            handle: Any = options.spawn(role.kind, *args, **kwargs)
        except StartFailed as error:
            cause = error.__cause__
            self._on_end(
                Ending(PodPhase.FAILED, f"its on_start() raised {safe_repr(cause)}", role.name, cause)
            )
            return False
        except Exception as error:  # noqa: BLE001  # whatever a constructor raises is a failure of its pod
            self._on_end(
                Ending(PodPhase.FAILED, f"its constructor raised {safe_repr(error)}", role.name, error)
            )
            return False
        actor = id_of(handle)
        self.handles[role.name] = handle
        self.addresses[role.name] = actor
        self._christen(actor)
        if has_park_hook(role.kind):
            self._parking.append(actor)
        if self._loop.status(actor) is ActorStatus.INIT:
            self._unborn.add(actor)
        return True

    def _hear(self, _ctx: Context[None], signal: object) -> None:
        """What they say to whoever has started them."""
        if isinstance(signal, ChildStart):
            self._unborn.discard(signal.child)
            self._christen(signal.child)
            self._look_born()
        elif isinstance(signal, ChildExit):
            if signal.reason is ExitReason.NORMAL:
                self._look_over()
                return
            why = f"reason {signal.reason.name}" if signal.cause is None else safe_repr(signal.cause)
            role = self._role_of(signal.child)
            self._on_end(Ending(PodPhase.FAILED, f"it failed with {why}", role, signal.cause))

    def _christen(self, actor: ActorId) -> None:
        """What an actor calls itself, others may be given: it is to stay good when the pod is started again."""
        role = self._role_of(actor)
        pod = self._pod
        kind = next(each.kind for each in pod.roles if each.name == role)
        place = RolePlace(self._registry, pod.name, role, kind, pod.when_down, pod.down_ms)
        self._loop.set_ref(actor, place)

    def _role_of(self, actor: ActorId) -> str:
        return next((name for name, known in self.addresses.items() if known == actor), "")

    def _look_born(self) -> None:
        if self._is_cast and not self._unborn:
            self._is_cast = False
            self._on_born()

    def _look_over(self) -> None:
        if not any(actor.is_alive for actor in self.addresses.values()):
            self._on_end(Ending(PodPhase.COMPLETED, "all its actors have ended"))

    def _park(self) -> None:
        """Call the hooks of those who want to know that a round is over."""
        for actor in self._parking:
            if not actor.is_alive or actor in self._unborn:
                continue
            try:
                self._loop.instance_of(actor).on_park()
            except Exception as error:  # noqa: BLE001  # it is the actor's failure, as of any of its handlers
                self._loop.fail_actor(actor, error)
