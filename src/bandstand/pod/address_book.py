"""The address book: from the name of a role to the actor that has it now.

Every pod of a deployment has an address book, and so does the calling program. The handles of roles (`RoleRef`) look here. A handle
does not look while its actor is alive, so the address book costs nothing except at restarts.

The address books of one process share `LocalAddresses`, which knows all pods that run in this process. An address book subscribes to a
pod when a handle first asks for it. So starting and stopping a pod costs time in proportion to its users, not to the number of pods.

The controller publishes an incarnation, withdraws it when it has ended, and retires a pod that will not be restarted.

While a pod is down, a plain thread can wait for it (`wait_for`), and a message can wait for it (`hold`). When the pod is published,
waiting messages are delivered first, in the order in which they were sent. A sender that arrives in between waits for the lock and then
retries. If the mailbox has no room for all waiting messages, the rest stays queued, and later messages queue behind them. A message
that waits too long, or whose pod is retired, fails with the reason; if it has no reply callback, it counts as dead.

All methods can be called from any thread. Foreign code (packing, delivery, reply callbacks) runs with the lock held only where the order
depends on it, and does not call back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from threading import Condition, RLock
from time import monotonic
from typing import TYPE_CHECKING, Any, final
from weakref import ref

from bandstand.actor.cross_thread import is_plain_thread
from bandstand.actor.enums import HELD, RETRY
from bandstand.actor.handle import deliver, forget_actor, has_room, is_draining
from bandstand.actor.when_down import PendingMessage, WhenDown
from bandstand.core.enums import ACCEPTED
from bandstand.core.logs import SafeLogger
from bandstand.errors import BandstandError, InvalidArgumentError, PodDownError, PodGoneError, PodTimeoutError
from bandstand.errors.formatting import safe_repr
from bandstand.pod.handle_pickling import DeploymentId, HandleToken, reduce_handle
from bandstand.pod.link.codec import Packet
from bandstand.pod.replicas import KeyedData
from bandstand.pod.status import PodStats
from bandstand.pod.threads import CallLater, call_later_here

if TYPE_CHECKING:
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback
    from bandstand.core import ActorId
    from bandstand.pod.spec import TroupeSpec

__all__ = ("AddressBook", "LocalAddresses", "RoleRef", "address_book_for")

logger = SafeLogger("bandstand.pod")

# After how many milliseconds delivery is tried again when a mailbox had no room.
NO_ROOM_MS = 5.0


# -- one pod ---------------------------------------------------------------------------------------------------------------------


@final
class PodEntry:
    """What an address book knows about one pod, and the messages that wait for it. Changes need the lock of the address book."""

    __slots__ = ("addresses", "gone", "is_retrying", "queues")

    def __init__(self) -> None:
        self.addresses: Mapping[str, ActorId] = {}
        """The actor of each role, as last published."""
        self.gone: str | None = None
        """Why the pod will not be restarted; None if it may be."""
        self.queues: dict[str, deque[PendingMessage]] = {}
        """The messages that wait, by role."""
        self.is_retrying = False
        """Whether a timer is set to deliver the messages that had no room."""

    def find(self, role: str) -> ActorId | None:
        """Return the actor of a role if it accepts messages from any sender. The lock is not needed."""
        if self.queues.get(role):
            # Messages that wait go first.
            return None
        actor = self.addresses.get(role)
        # It may have ended without having been withdrawn yet.
        return actor if actor is not None and accepts_messages(actor) else None

    def state(self, role: str) -> str:
        """Return why the actor of a role accepts no message, for display: "its pod is being started"."""
        if self.gone is not None:
            return f"its pod has ended for good: {self.gone}"
        actor = self.addresses.get(role)
        if actor is None:
            return "its pod is being started"
        if not actor.is_alive:
            return "its actor has ended, and its pod runs on"
        if is_draining(actor):
            return "its actor is stopping: it handles the messages it has, and accepts no others"
        return "its actor has started, and first takes the messages that wait for it"

    def deliver_pending(self, failed: list[tuple[PendingMessage, BaseException]]) -> bool:
        """Deliver the messages that wait, in order. Messages that cannot be sent at all are added to `failed`.

        Returns:
            False if a mailbox had no room for all of them.
        """
        is_done = True
        for role, queue in self.queues.items():
            actor = self.addresses.get(role)
            while queue and actor is not None and accepts_messages(actor):
                message = queue[0]
                if not has_room(actor, message.method):
                    # Checked first: a message that is refused would be counted.
                    is_done = False
                    break
                try:
                    outcome = deliver(
                        message.handle,
                        actor,
                        message.method,
                        message.data,
                        message.callback,
                        message.context,
                    )
                except Exception as error:  # noqa: BLE001  # what packing raises goes to the sender
                    queue.popleft()
                    failed.append((message, error))
                    continue
                if outcome != ACCEPTED:
                    is_done = False
                    break
                # Only now: once the queue is empty, other senders find the actor.
                queue.popleft()
                message.cancel_timers()
        return is_done


def accepts_messages(actor: ActorId) -> bool:
    """Return whether an actor accepts messages from any sender: it is alive and not draining."""
    return actor.is_alive and not is_draining(actor)


# -- the address book ------------------------------------------------------------------------------------------------------------


@final
class LocalAddresses:
    """The pods of one deployment that run in this process; shared by its address books. From any thread.

    The lock is held while the address books are updated, so that all of them see the same order. It is taken before the lock of an
    address book, never after it.
    """

    __slots__ = ("_gone", "_running", "_subscribers", "lock")

    def __init__(self) -> None:
        self.lock = RLock()
        self._running: dict[str, Mapping[str, ActorId]] = {}
        self._gone: dict[str, str] = {}
        self._subscribers: dict[str, list[AddressBook]] = {}

    def subscribe(self, pod: str, book: AddressBook) -> tuple[Mapping[str, ActorId], str | None]:
        """Send changes of a pod to an address book from now on. Call it with the lock held.

        Returns:
            The current addresses of the pod, and why it is gone.
        """
        self._subscribers.setdefault(pod, []).append(book)
        running: Mapping[str, ActorId] = {} if book.owner == pod else self._running.get(pod, {})
        return running, self._gone.get(pod)

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Publish a pod that runs. Its own address book is left out: it has more addresses than others may see."""
        with self.lock:
            self._running[pod] = addresses
            for book in self._subscribers.get(pod, ()):
                if book.owner != pod:
                    book.publish(pod, addresses)

    def withdraw(self, pod: str) -> None:
        """Withdraw an incarnation that has ended; another may follow."""
        with self.lock:
            self._running.pop(pod, None)
            for book in self._subscribers.get(pod, ()):
                book.withdraw(pod)

    def retire(self, pod: str, reason: str) -> None:
        """Retire a pod that has ended for good."""
        with self.lock:
            self._gone.setdefault(pod, reason)
            for book in self._subscribers.get(pod, ()):
                book.retire(pod, reason)


class AddressBook:
    """The current actors of all roles, for the handles of one pod or of the calling program.

    Args:
        pods: the names of all pods.
        call_later: limits how long messages wait; None if no message may wait.
        capacities: how many messages may wait, by role.
        default_capacity: how many may wait for roles without an entry there.
        deployment: identifies the deployment: handles of one role are equal if their deployments are.
        local: the pods of this process; None if addresses are only published directly.
        owner: the pod that the address book belongs to; None for the calling program.
    """

    def __init__(
        self,
        pods: Collection[str],
        *,
        call_later: CallLater | None = None,
        capacities: Mapping[str, int] | None = None,
        default_capacity: int = 1020,
        deployment: DeploymentId | None = None,
        local: LocalAddresses | None = None,
        owner: str | None = None,
    ) -> None:
        self._pods = pods
        # Only of pods that were asked for.
        self._entries: dict[str, PodEntry] = {}
        self._local = local
        self.owner = owner
        self._changed = Condition()
        self._call_later = call_later
        self._capacities: Mapping[str, int] = capacities or {}
        self._default_capacity = default_capacity
        self.deployment = DeploymentId("") if deployment is None else deployment
        # The handles that must look again when the address book is closed.
        self._handles: list[ref[Handle]] = []
        self._prune_at = 64
        # Why all pods are gone, once the address book is closed.
        self._closed: str | None = None
        self.lookups = 0
        """How often an address was looked up."""
        self.dead = 0
        """How many one-way messages waited and were not delivered."""

    # -- called by the controller ------------------------------------------------------------------------------------------------

    def publish(self, pod: str, addresses: Mapping[str, ActorId]) -> None:
        """Set the actors of a new incarnation, deliver the messages that wait for it, and wake the threads that do."""
        entry = self._entry(pod)
        with self._changed:
            if entry.gone is not None:
                return
            entry.addresses = dict(addresses)
        self._deliver_pending(entry)

    def withdraw(self, pod: str, addresses: Mapping[str, ActorId] | None = None) -> None:
        """Remove the actors of an incarnation that has ended; with `addresses`, only if these are the current ones."""
        entry = self._entry(pod)
        with self._changed:
            if addresses is None or entry.addresses == addresses:
                entry.addresses = {}

    def retire(self, pod: str, reason: str) -> None:
        """Mark a pod as ended for good, and fail everything that waits for it. The first reason counts."""
        entry = self._entry(pod)
        with self._changed:
            if entry.gone is None:
                entry.gone = reason
            entry.addresses = {}
            queues, entry.queues = entry.queues, {}
            self._changed.notify_all()
        for queue in queues.values():
            for message in queue:
                self._fail(message, self._gone_error(pod, entry))

    def revive(self, pod: str) -> None:
        """Take back `retire` and `close`, because the deployment around it is restarted."""
        entry = self._entry(pod)
        with self._changed:
            self._closed = None
            entry.gone = None

    def close(self, reason: str) -> None:
        """Retire all pods. Handles whose actors are still alive do not reach them any more."""
        with self._changed:
            if self._closed is None:
                self._closed = reason
            pods = list(self._entries)
        for pod in pods:
            self.retire(pod, reason)
        with self._changed:
            handles = list(self._handles)
        for known in handles:
            handle = known()
            if handle is not None:
                forget_actor(handle)

    def abandon(self, reason: str) -> None:
        """Close the address book in a forked process. The threads that held its lock and ran its timers do not exist there."""
        self._changed = Condition()
        self._local = None
        self._closed = reason
        for entry in self._entries.values():
            entry.gone = reason
            entry.addresses = {}
            entry.queues = {}
        for known in self._handles:
            handle = known()
            if handle is not None:
                forget_actor(handle)

    def track(self, handle: Handle) -> None:
        """Remember a handle, so that `close` can make it look again."""
        with self._changed:
            if len(self._handles) >= self._prune_at:
                self._handles = [known for known in self._handles if known() is not None]
                self._prune_at = max(64, 2 * len(self._handles))
            self._handles.append(ref(handle))

    # -- called by handles -------------------------------------------------------------------------------------------------------

    def find(self, pod: str, role: str) -> ActorId | None:
        """Return the current actor of a role; None if there is none that accepts messages."""
        self.lookups += 1
        return self._entry(pod).find(role)

    def state(self, pod: str, role: str) -> str:
        """Return why the actor of a role accepts no message, for display."""
        return self._entry(pod).state(role)

    def why_gone(self, pod: str) -> str | None:
        """Return why a pod will not be restarted; None if it may be."""
        return self._entry(pod).gone

    def wait_for(self, pod: str, role: str, timeout: float) -> ActorId:
        """Block the thread until a role has an actor that accepts messages, for at most `timeout` seconds.

        Raises:
            PodGoneError: the pod has ended for good.
            PodTimeoutError: the timeout has passed.
        """
        entry = self._entry(pod)
        until = monotonic() + timeout
        with self._changed:
            while True:
                if entry.gone is not None:
                    raise self._gone_error(pod, entry)
                actor = self.find(pod, role)
                if actor is not None:
                    return actor
                left = until - monotonic()
                if left <= 0 or not self._changed.wait(left):
                    actor = self.find(pod, role)
                    if actor is not None:
                        return actor
                    raise self._timeout_error(pod, entry, role, timeout * 1000)

    def hold(self, pod: str, message: PendingMessage, timeout: float) -> int:
        """Queue a message for a pod that is down, for at most `timeout` seconds.

        Returns:
            HELD, or RETRY if the pod is back.

        Raises:
            PodGoneError: the pod has ended for good.
            PodDownError: the queue of the role is full, or no message may wait here.
        """
        entry = self._entry(pod)
        with self._changed:
            if entry.gone is not None:
                raise self._gone_error(pod, entry)
            if self.find(pod, message.name) is not None:
                return RETRY
            queue = entry.queues.setdefault(message.name, deque())
            capacity = self._capacities.get(message.name, self._default_capacity)
            if self._call_later is None or len(queue) >= capacity:
                raise PodDownError(
                    f"pod {pod!r} is down, and the queue of messages that wait for {message.name!r} is full ({capacity}): slow down, "
                    f"or try again when it is back"
                )
            queue.append(message)
        timeout_ms = timeout * 1000
        expire = partial(self._expire, pod, entry, message, timeout_ms)
        message.cancels.append(self._call_later(timeout_ms, expire))
        call_later = call_later_here()
        if call_later is not None:
            # On the sender's clock as well: the other thread may be stuck, and this one may end.
            message.cancels.append(call_later(timeout_ms, expire))
        return HELD

    def stats(self) -> PodStats:
        """Return the counts of the messages that wait here, and of those that waited and were never sent."""
        waiting, dead = self.waiting, self.dead
        return PodStats(sent=waiting + dead, dead=dead, waiting=waiting)

    @property
    def waiting(self) -> int:
        """How many messages wait."""
        return sum(
            len(queue) for entry in list(self._entries.values()) for queue in list(entry.queues.values())
        )

    # -- internals ---------------------------------------------------------------------------------------------------------------

    def _entry(self, pod: str) -> PodEntry:
        entry = self._entries.get(pod)
        return self._add_entry(pod) if entry is None else entry

    def _add_entry(self, pod: str) -> PodEntry:
        """Start to follow a pod. The caller must not hold the lock: the lock of `LocalAddresses` comes first."""
        if pod not in self._pods:
            known = ", ".join(sorted(self._pods)) or "none"
            raise InvalidArgumentError(f"there is no pod {pod!r}: pass one of {known}")
        with nullcontext() if self._local is None else self._local.lock, self._changed:
            entry = self._entries.get(pod)
            if entry is None:
                entry = PodEntry()
                gone = None
                if self._local is not None:
                    entry.addresses, gone = self._local.subscribe(pod, self)
                entry.gone = self._closed or gone
                # Last: threads that find the entry without the lock must find it complete.
                self._entries[pod] = entry
        return entry

    def _deliver_pending(self, entry: PodEntry) -> None:
        """Deliver the messages that wait, as far as there is room, and wake the threads that wait."""
        failed: list[tuple[PendingMessage, BaseException]] = []
        with self._changed:
            if not entry.deliver_pending(failed) and not entry.is_retrying and self._call_later is not None:
                entry.is_retrying = True
                self._call_later(NO_ROOM_MS, partial(self._retry_delivery, entry))
            self._changed.notify_all()
        # Without the lock: a reply callback may do anything.
        for message, error in failed:
            self._fail(message, error)

    def _retry_delivery(self, entry: PodEntry) -> None:
        entry.is_retrying = False
        self._deliver_pending(entry)

    def _expire(self, pod: str, entry: PodEntry, message: PendingMessage, timeout_ms: float) -> None:
        with self._changed:
            queue = entry.queues.get(message.name)
            if queue is None or message not in queue:
                return
            queue.remove(message)
        if not message.expire():
            self._fail(message, self._timeout_error(pod, entry, message.name, timeout_ms))

    def _fail(self, message: PendingMessage, error: BaseException) -> None:
        message.cancel_timers()
        if not message.fail(error):
            with self._changed:
                self.dead += 1
            logger.warning("%s was not delivered: %s", message, error)

    @staticmethod
    def _gone_error(pod: str, entry: PodEntry) -> BandstandError:
        return PodGoneError(f"pod {pod!r} has ended for good: {entry.gone}")

    @staticmethod
    def _timeout_error(pod: str, entry: PodEntry, role: str, timeout_ms: float) -> BandstandError:
        actor = entry.addresses.get(role)
        if actor is not None:
            hint = "" if accepts_messages(actor) else ". It comes back when its pod is restarted"
            return PodTimeoutError(
                f"role {role!r} of pod {pod!r} accepted no message within {timeout_ms:g} ms: {entry.state(role)}{hint}"
            )
        return PodTimeoutError(
            f"role {role!r} accepted no message: pod {pod!r} was not back within {timeout_ms:g} ms: see troupe.status() for its phase and "
            f"troupe.health() for its kubelet"
        )


def address_book_for(
    spec: TroupeSpec, call_later: CallLater, local: LocalAddresses | None = None, owner: str | None = None
) -> AddressBook:
    """Make an address book for the pods of a deployment. As many messages may wait for a role as its mailbox takes."""
    return AddressBook(
        spec.by_name.keys(),
        call_later=call_later,
        capacities=spec.lane_capacities,
        deployment=spec.identity,
        local=local,
        owner=owner,
    )


# -- references of handles -------------------------------------------------------------------------------------------------------


@final
class RoleRef:
    """The reference of a handle to a role: finds the current actor, and decides what to do while there is none.

    Args:
        address_book: where to look.
        pod: the pod of the role.
        role: the role.
        kind: the class of the actor.
        policy: what to do with a message while the pod is down.
        timeout_ms: how long a message may wait.
        pack: packs a message for another process; None for a role of this process.
    """

    __slots__ = ("_address_book", "_kind", "_pack", "_policy", "_timeout_ms", "pod", "role")

    holds_messages = True

    def __init__(
        self,
        address_book: AddressBook,
        pod: str,
        role: str,
        kind: type[Any],
        policy: WhenDown,
        timeout_ms: float,
        pack: Callable[[Handle, Method, object], object] | None = None,
    ) -> None:
        self._address_book = address_book
        self.pod = pod
        self.role = role
        self._kind = kind
        self._policy = policy
        self._timeout_ms = timeout_ms
        self._pack = pack

    def find(self) -> ActorId | None:
        """Return the current actor; None if there is none that accepts messages."""
        return self._address_book.find(self.pod, self.role)

    def refusal(self) -> PodDownError:
        """Return the error for a message that is refused because there is no actor."""
        state = self._address_book.state(self.pod, self.role)
        return PodDownError(
            f"there is no actor to take the message: role {self.role!r} of pod {self.pod!r}: {state}"
        )

    def hold(
        self, handle: Handle, method: Method, data: object, callback: ReplyCallback | None, may_wait: bool, /
    ) -> int:
        """Block the caller until there is an actor, queue the message, or refuse it, as the policy says.

        Returns:
            HELD, or RETRY if there is an actor now.

        Raises:
            PodGoneError: the pod has ended for good.
            PodDownError: the policy is FAIL, or too many messages or bytes wait.
            PodTimeoutError: the caller was blocked, and the timeout has passed.
        """
        address_book = self._address_book
        gone = address_book.why_gone(self.pod)
        if gone is not None:
            raise PodGoneError(f"{safe_repr(handle)}: pod {self.pod!r} has ended for good: {gone}")
        if self._policy is WhenDown.FAIL:
            if address_book.find(self.pod, self.role) is not None:
                # It was published just now.
                return RETRY
            state = address_book.state(self.pod, self.role)
            raise PodDownError(
                f"role {self.role!r} of pod {self.pod!r} is down, and this handle does not wait for it: {state}"
            )
        if self._pack is None:
            message = PendingMessage(self.role, handle, method, data, callback, copy_context())
        else:
            # In the call, as with every message to another process: what cannot be pickled is an error of the call, and later
            # changes of the arguments are not sent.
            packed = self._pack(handle, method, data)
            packet = packed.data if isinstance(packed, KeyedData) else packed
            if isinstance(packet, Packet) and packet.is_over_budget:
                raise PodDownError(
                    f"pod {self.pod!r} is down, and the messages that wait for {self.role!r} have reached its byte limit "
                    f"(mailbox_bytes): slow down, or try again when it is back"
                )
            message = PendingMessage(self.role, handle, method, packed, callback, None)
        timeout_ms = min(self._timeout_ms, message.left_ms)
        if self._policy is WhenDown.WAIT and may_wait and is_plain_thread():
            address_book.wait_for(self.pod, self.role, timeout_ms / 1000)
            return RETRY
        return address_book.hold(self.pod, message, timeout_ms / 1000)

    def reduce(self) -> tuple[Any, ...]:
        """Return what `pickle` needs to make an equal handle in another process.

        Raises:
            TypeError: no message is being pickled, or its receiver could not resolve the handle.
        """
        deployment = self._address_book.deployment
        return reduce_handle(
            HandleToken(
                deployment.token,
                deployment.path,
                self.role,
                self._kind,
                self._policy,
                self._timeout_ms,
                self.pod,
            )
        )

    def track(self, handle: Handle) -> None:
        """Let the address book remember a handle with this reference."""
        self._address_book.track(handle)

    def with_policy(self, policy: WhenDown, timeout_ms: float | None) -> RoleRef:
        """Return a reference to the same role with another policy; with None, the timeout stays."""
        ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return RoleRef(self._address_book, self.pod, self.role, self._kind, policy, ms, self._pack)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, RoleRef):
            return NotImplemented
        # The address books may differ: handles of one role are equal wherever they are held.
        # A replica's handle of its own actor is not that of the replicated pod.
        return (
            self._address_book.deployment == other._address_book.deployment
            and self.role == other.role
            and self.pod == other.pod
        )

    def __hash__(self) -> int:
        return hash((self._address_book.deployment, self.role))
