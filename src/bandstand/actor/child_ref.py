"""Handles of supervised children, which stay valid over restarts: `root.handle(Counter, "counter")`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, cast, final

from bandstand.actor.child_queue import ChildQueue, deliver_held, fail_held
from bandstand.actor.cross_thread import CrossThreadCallback
from bandstand.actor.declaration import checked_actor_class
from bandstand.actor.enums import HELD, REFUSED, RETRY
from bandstand.actor.when_down import PendingMessage, WhenDown
from bandstand.errors import ActorRestartingError, NoSuchActorError
from bandstand.supervision.spec import cap_of, is_child_of

if TYPE_CHECKING:
    from bandstand.actor.actor import BaseActor
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback
    from bandstand.actor.system import ActorSystem
    from bandstand.core import ActorId
    from bandstand.supervision import Overseer

__all__ = ("ChildRef", "child_handle")


@final
class ChildRef:
    """A `StableRef` to a child in a tree of supervisors, by the names on the path to it.

    Args:
        root: the supervisor at the top of the path.
        kind: the class of the child.
        path: its name, or the names on the path to it.
        policy: what to do with a message while the child is being restarted.
        timeout_ms: how long a message may wait; None for no limit but the deadline of an ask.
    """

    __slots__ = ("_kind", "_path", "_policy", "_root", "_timeout_ms")

    holds_messages = False

    def __init__(
        self,
        root: Overseer,
        kind: type[BaseActor],
        path: tuple[str, ...],
        policy: WhenDown = WhenDown.WAIT,
        timeout_ms: float | None = None,
    ) -> None:
        self._root = root
        self._kind = kind
        self._path = path
        self._policy = policy
        self._timeout_ms = timeout_ms

    def find(self) -> ActorId | None:
        """Return the current incarnation; None while there is none, or if it is of another class."""
        found = self._root.locate(self._path)
        if found is None:
            return None
        actor, spec = found
        return actor if is_child_of(spec, self._kind) else None

    def hold(
        self,
        handle: Handle,
        method: Method,
        data: object,
        callback: ReplyCallback | None,
        _may_wait: bool,
        /,
    ) -> int:
        """Queue a message while the child is being restarted, if the policy allows it.

        With QUEUE every message may wait, with WAIT only asks. From another thread the message is queued on the loop's thread: if the
        queue is full there, an ask fails, and a one-way message becomes a dead letter.

        Returns:
            HELD, REFUSED, or RETRY if there is an actor now.
        """
        system = self._system
        waits = self._policy is WhenDown.QUEUE or (self._policy is WhenDown.WAIT and callback is not None)
        if not waits or system.kernel.is_closed:
            return REFUSED
        if self.find() is not None:
            return RETRY
        if not self.will_start:
            return REFUSED
        message = PendingMessage(self._path[-1], handle, method, data, callback, None)
        if system.kernel.is_other_thread():
            system.kernel.inbox.call_soon(partial(self._hold_from_thread, message))
            return HELD
        return HELD if self._enqueue(message) else REFUSED

    def refusal(self) -> NoSuchActorError:
        """Return the error for a message that is refused: what the child is waiting for, or that it will not be restarted."""
        if not self.will_start:
            given_up = self._root.why_given_up(self._path)
            why = "" if given_up is None else f": its supervisor has given it up, {given_up}"
            return NoSuchActorError(
                f"there is no actor to take the message: {self} is down and will not be restarted{why}"
            )
        waiting = len(self._system.child_queues.get(self, ()))
        what = "1 message waits" if waiting == 1 else f"{waiting} messages wait"
        why = f", and {what} for it" if waiting else ""
        return ActorRestartingError(
            f"there is no actor to take the message: {self} is down and will be restarted{why}"
        )

    def with_policy(self, policy: WhenDown, timeout_ms: float | None) -> ChildRef:
        """Return an equal reference with another policy; None keeps the timeout."""
        ms = self._timeout_ms if timeout_ms is None else timeout_ms
        return ChildRef(self._root, self._kind, self._path, policy, ms)

    def track(self, _handle: Handle, /) -> None:
        """Do nothing: a supervisor need not know the handles of its children."""

    def reduce(self) -> None:
        """Return None: the tree of supervisors exists only in this process."""

    @property
    def will_start(self) -> bool:
        """Whether a supervisor is going to start the child, which is not running. Thread-safe."""
        # A child that runs, and is not found, is of another class.
        return self._root.locate(self._path) is None and self._root.will_start_child(self._path)

    @property
    def is_gone(self) -> bool:
        """Whether the child has ended and will not be restarted. Loop thread only."""
        return self._root.is_child_gone(self._path)

    def follow(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call a function on each restart, and when there will be no more. Return a function that unsubscribes it."""
        return self._root.watch_child(self._path, callback).cancel

    @property
    def _system(self) -> ActorSystem:
        return cast("ActorSystem", self._root.loop)

    def _enqueue(self, message: PendingMessage) -> bool:
        """Queue a message. Return False if the queue is full. Loop thread only."""
        system = self._system
        queue = system.child_queues.get(self)
        if queue is None:
            queue = ChildQueue(system, self)
        if not queue.has_room(self._capacity()):
            return False
        queue.add(message, self._timeout_ms)
        return True

    def _hold_from_thread(self, message: PendingMessage) -> None:
        """Queue a message of another thread, or deliver it if the child has started meanwhile."""
        if message.is_done:
            return
        actor = self.find()
        if actor is not None:
            deliver_held(self._system, message, actor)
        elif not self.will_start or not self._enqueue(message):
            fail_held(self._system, message, self.refusal())
        elif isinstance(message.callback, CrossThreadCallback):
            message.callback.set_deadline()

    def _capacity(self) -> int:
        """Return how many messages may wait: as many as one lane of the child's mailbox holds."""
        system = self._system
        spec = self._root.spec_at(self._path)
        cap = system.kernel.actors.default_cap if spec is None else cap_of(system, spec)
        return cap - system.config.sys_reserved

    def __str__(self) -> str:
        return f"child {'/'.join(self._path)!r} of supervisor {self._root.name!r}"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ChildRef):
            return NotImplemented
        return self._root.actor is other._root.actor and self._path == other._path

    def __hash__(self) -> int:
        return hash((self._root.actor, self._path))


def child_handle(system: ActorSystem, root: Overseer, kind: Any, path: tuple[str, ...]) -> Handle:
    """Return a handle of a supervised child. The child need not exist.

    Args:
        system: the system of the supervisor.
        root: the supervisor.
        kind: the class that the child was declared with, or a base class of it.
        path: its name, or several names, from the root down.

    Raises:
        InvalidArgumentError: it is not an actor class.
    """
    known = checked_actor_class(kind)
    ref = ChildRef(root, known, path)
    return system.handle_at(known, ref, name=path[-1], actor=ref.find())
