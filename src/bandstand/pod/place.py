"""The place of a role: where a handle finds whoever plays it, and what it does while nobody does."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar, cast, final

from bandstand.actor.cross_thread import is_plain_thread
from bandstand.actor.enums import RETRY
from bandstand.actor.handle import checked_handle, ref_of, with_ref
from bandstand.errors import InvalidArgument, PodDown, PodGone
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_member, check_ms
from bandstand.pod.held import Held
from bandstand.pod.link.codec import Packet
from bandstand.pod.passport import Passport, passport_of
from bandstand.pod.vocabulary import WhenDown

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback
    from bandstand.core import ActorId
    from bandstand.pod.registry import PodRegistry

__all__ = ("RolePlace", "when_down")

H = TypeVar("H")


@final
class RolePlace:
    """Where a role of a pod is to be found, for one holder."""

    __slots__ = ("_kind", "_pack", "_policy", "_registry", "_timeout_ms", "pod", "role")

    holds_messages = True

    def __init__(
        self,
        registry: PodRegistry,
        pod: str,
        role: str,
        kind: type[Any],
        policy: WhenDown,
        timeout_ms: float,
        pack: Callable[[Handle, Method, object], object] | None = None,
    ) -> None:
        self._registry = registry
        self.pod = pod
        self.role = role
        self._kind = kind
        self._policy = policy
        self._timeout_ms = timeout_ms
        # What makes of a message what goes to another process; None for a role of this one.
        self._pack = pack

    def find(self) -> ActorId | None:
        """Whoever plays it at present; None while nobody does."""
        return self._registry.find(self.pod, self.role)

    def describe(self) -> str:
        """How to speak of it, and why nobody is there."""
        return f"role {self.role!r} of pod {self.pod!r}: {self._registry.state(self.pod, self.role)}"

    def hold(
        self, handle: Handle, method: Method, data: object, asked: ReplyCallback | None, may_wait: bool, /
    ) -> int:
        """Wait for somebody to come, keep the message for them, or refuse it, as the policy says."""
        registry = self._registry
        gone = registry.why_gone(self.pod)
        if gone is not None:
            raise PodGone(f"{safe_repr(handle)}: pod {self.pod!r} has ended for good: {gone}")
        if self._policy is WhenDown.FAIL:
            if registry.find(self.pod, self.role) is not None:
                # Somebody has come just now.
                return RETRY
            state = registry.state(self.pod, self.role)
            raise PodDown(
                f"role {self.role!r} of pod {self.pod!r} is down, and this handle does not wait for it: {state}"
            )
        if self._pack is None:
            held = Held(self.role, handle, method, data, asked, copy_context())
        else:
            # In the call, as always between processes: what cannot be sent is an error here, and what is changed later is not seen.
            packed = self._pack(handle, method, data)
            if isinstance(packed, Packet) and packed.is_over:
                raise PodDown(
                    f"pod {self.pod!r} is down, and as many bytes wait for {self.role!r} as may (mailbox_bytes): slow down, or try "
                    f"again when it is back"
                )
            held = Held(self.role, handle, method, packed, asked, None)
        timeout_ms = min(self._timeout_ms, held.left_ms)
        if self._policy is WhenDown.WAIT and may_wait and is_plain_thread():
            registry.connect(self.pod, self.role, timeout_ms)
            return RETRY
        return registry.hold(self.pod, held, timeout_ms)

    def reduce(self) -> tuple[Any, ...]:
        """How it is found in another process.

        Raises:
            TypeError: it is not sent to a process, or to one that could not resolve it.
        """
        realm = self._registry.realm
        return passport_of(
            Passport(realm.token, realm.path, self.role, self._kind, self._policy, self._timeout_ms)
        )

    def enlist(self, handle: Handle) -> None:
        """Note a handle that is at this place."""
        self._registry.enlist(handle)

    def with_policy(self, policy: WhenDown, timeout_ms: float | None) -> RolePlace:
        """The same place with other manners."""
        ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return RolePlace(self._registry, self.pod, self.role, self._kind, policy, ms, self._pack)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RolePlace):
            return NotImplemented
        # Whoever holds it: two handles of one role of one troupe object are equal.
        return self._registry.realm == other._registry.realm and self.role == other.role

    def __hash__(self) -> int:
        return hash((self._registry.realm, self.role))


def when_down(handle: H, policy: WhenDown, *, timeout_ms: float | None = None) -> H:
    """The same handle with another way to go about a pod that is down.

    Args:
        handle: one of a troupe's role.
        policy: what to do with a message while the pod is down.
        timeout_ms: for how long; that of the pod's declaration if nothing is said.

    Raises:
        InvalidArgument: it is no handle of a troupe's role, or a value has no sense.
    """
    known = checked_handle(handle)
    check_member("when_down: policy", policy, WhenDown)
    if timeout_ms is not None:
        check_ms("when_down: timeout_ms", timeout_ms)
    place = ref_of(known)
    if not isinstance(place, RolePlace):
        raise InvalidArgument(
            f"{safe_repr(handle)} is no handle of a troupe's role: its actor is not started again"
        )
    made = with_ref(known, place.with_policy(policy, timeout_ms))
    place.enlist(made)
    return cast("H", made)
