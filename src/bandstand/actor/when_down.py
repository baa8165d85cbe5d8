"""What a handle does with a message while its actor is being restarted: the policies, and the messages that wait.

A handle of one actor has no such policy: when its actor has exited, every call raises. A handle of a supervised child, or of a
pod's role, has one, and `when_down` returns the same handle with another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeVar, cast

from bandstand.actor.handle import checked_handle, ref_of, with_ref
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_member, to_ms

if TYPE_CHECKING:
    from contextvars import Context

    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback
    from bandstand.errors.validation import Seconds

__all__ = ("PendingMessage", "WhenDown", "when_down")

H = TypeVar("H")


class WhenDown(Enum):
    """What a handle does with a message while its actor is down and will be restarted."""

    WAIT = "wait"
    """Wait until the actor is up, or the timeout expires.

    For a supervised child, asks wait, and one-way calls raise `ActorRestartingError`. For a role of a pod, the calling thread is
    blocked; on a thread that runs an event loop the message is queued instead, as with QUEUE."""
    FAIL = "fail"
    """Raise at once: `ActorRestartingError` for a supervised child, `PodDownError` for a role of a pod."""
    QUEUE = "queue"
    """Keep the message, one-way or not, until the actor is up, or the timeout expires. As many messages are kept as the mailbox
    holds; one more raises as with FAIL."""


@dataclass(slots=True, eq=False)
class PendingMessage:
    """A message that waits for its actor, with everything that is needed to deliver it later."""

    name: str
    """The name of the role or of the child."""
    handle: Handle
    method: Method
    data: object
    callback: ReplyCallback | None
    """What receives the reply; None for a one-way message."""
    context: Context | None
    """The context of the sender; None if the data is packed already."""
    cancels: list[Callable[[], object]] = field(default_factory=list[Callable[[], object]])
    """Each cancels a timer that limits the wait."""

    @property
    def left_ms(self) -> float:
        """How much of the caller's own timeout is left; infinite if it has none, or if the caller watches it."""
        left: float = getattr(self.callback, "left_ms", float("inf"))
        return left

    @property
    def is_done(self) -> bool:
        """Whether the caller has its result already: at its deadline, or by cancelling."""
        return self.callback is not None and self.callback.done()

    def cancel_timers(self) -> None:
        """Cancel the timers that limit the wait."""
        for cancel in self.cancels:
            cancel()

    def expire(self) -> bool:
        """End the wait with the caller's own timeout; return False if that is not the one that has passed."""
        if self.left_ms > 0 or self.callback is None:
            return False
        self.callback.expire()  # type: ignore[attr-defined]  # a callback with `left_ms` has it
        return True

    def fail(self, error: BaseException) -> bool:
        """Fail the reply callback; return False if there is none."""
        if self.callback is None:
            return False
        self.callback.fail(error)
        return True

    def __str__(self) -> str:
        return f"{self.method.owner}.{self.method.name}() for {self.name!r}"


def when_down(handle: H, policy: WhenDown, *, timeout: Seconds | None = None) -> H:
    """Return the same handle with another policy for messages that are sent while its actor is being restarted.

    Args:
        handle: a handle of a supervised child, or of a troupe's role.
        policy: what to do with a message while the actor is down.
        timeout: how long the message may wait, in seconds; None for the timeout that the handle has. The handle of a supervised
            child has none: an ask waits until its own deadline.

    Raises:
        InvalidArgumentError: `handle` is the handle of one actor, which is not restarted, or no handle; or a value is invalid.
    """
    known = checked_handle(handle)
    check_member("when_down: policy", policy, WhenDown)
    timeout_ms = None if timeout is None else to_ms("when_down: timeout", timeout, otherwise=", or None")
    ref = ref_of(known)
    if ref is None:
        raise InvalidArgumentError(
            f"when_down: {safe_repr(handle)} is the handle of one actor, which is not restarted: pass a handle of a supervised "
            f"child or of a troupe's role"
        )
    copy = with_ref(known, ref.with_policy(policy, timeout_ms))
    ref.track(copy)
    return cast("H", copy)
