"""Health checks: `ping` and `status_of`, which every typed actor answers, and `peek`, which looks without asking.

`ping` and `status_of` are ordinary asks on the MANAGEMENT lane: an answer proves that the actor handles messages. An actor that is
suspended in a handler, or blocked, does not answer, and the ask ends with `AskTimeoutError`, which names the actor; then `peek` and
`Loop.waits` show what it is doing. Both are methods that no class declares, so other messages cost nothing extra.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from bandstand.actor.actor import DEFAULT_ASK_TIMEOUT
from bandstand.actor.bound_methods import Ask
from bandstand.actor.dispatch import Method
from bandstand.actor.enums import NO_ARGUMENTS
from bandstand.actor.handle import Handle, HandleMethod, loop_of, refresh
from bandstand.actor.reply import Reply, ReplyCallback, checked_ask_ms
from bandstand.actor.state_machine import Machine
from bandstand.actor.timers import is_deferred_call
from bandstand.core import ActorStatus, Lane
from bandstand.errors import InvalidArgumentError, NoSuchActorError
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import Seconds

if TYPE_CHECKING:
    from bandstand.actor.wait_graph import WaitFor
    from bandstand.core import ActorId

__all__ = ("ActorReport", "Inquiry", "answer_inquiry", "make_report", "peek", "ping", "status_of")

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ActorReport:
    """The state of an actor at one moment."""

    actor: ActorId
    name: str | None
    kind: str
    """The name of its class."""
    status: ActorStatus
    state: str | None
    """The state of a `Machine`; None for other actors."""
    waiting_system: int
    waiting_control: int
    waiting_management: int
    waiting_data: int
    """The number of messages that wait in each lane."""
    kept: int
    """The number of messages in all its stashes."""
    handling: str | None
    """The method in which it is suspended; None if it is not. Always None in the answer of `status_of`."""
    waits_for: tuple[WaitFor, ...]
    """The actors its handler waits for, and since when."""
    children: tuple[str, ...]
    """The names of the children it has started, including background work."""

    @property
    def waiting(self) -> int:
        """The number of messages that wait in all lanes together."""
        return self.waiting_system + self.waiting_control + self.waiting_management + self.waiting_data


@final
class Inquiry(Generic[R]):
    """An ask that every typed actor answers: `await ping(handle)`, or `ping.blocking(handle)` from a plain thread."""

    __slots__ = ("_handle_method",)

    def __init__(self, handle_method: HandleMethod) -> None:
        self._handle_method = handle_method

    @property
    def method(self) -> Method:
        """The method of its messages."""
        return self._handle_method.method

    def __call__(self, handle: object, /, *, timeout: Seconds | None = DEFAULT_ASK_TIMEOUT) -> Reply[R]:
        """Ask, with a deadline of 5 s by default, and await the reply. Works wherever an ask does.

        Raises:
            InvalidArgumentError: it is not the handle of a typed actor. Raw actors have no methods and cannot be asked.
            MailboxFullError, NoSuchActorError, LoopClosedError: nothing was sent.
        """
        return self._bound(handle, timeout)()

    def blocking(self, handle: object, /, *, timeout: Seconds | None = DEFAULT_ASK_TIMEOUT) -> R:
        """Ask from a plain thread, and wait there for the answer."""
        return self._bound(handle, timeout).blocking()

    def future(self, handle: object, /, *, timeout: Seconds | None = DEFAULT_ASK_TIMEOUT) -> Future[R]:
        """Ask from a plain thread, and return a future."""
        return self._bound(handle, timeout).future()

    def _bound(self, handle: object, timeout: Seconds | None) -> Ask[[], R]:
        return Ask(_checked_handle(handle), self._handle_method, checked_ask_ms("timeout", timeout))

    def __repr__(self) -> str:
        return f"<{self._handle_method.method.name}, an ask that every typed actor answers>"


def _checked_handle(handle: object) -> Handle:
    if not isinstance(handle, Handle):
        raise InvalidArgumentError(
            f"{safe_repr(handle)} is not the handle of a typed actor: pass what spawn() returned for a class. Raw actors have no "
            f"methods; see Loop.tree() for their state"
        )
    return handle


def _bind(_handle: object) -> None:
    """Return the data of a message without arguments."""


def _pong(_actor: object) -> None:
    """Answer a ping."""


def _report(actor: Any) -> ActorReport:
    """Report on an actor, in its own turn or from elsewhere on its thread."""
    children = actor.__actor_children__
    return make_report(
        actor.__actor_handle__,
        type(actor).__qualname__,
        actor.state.name if isinstance(actor, Machine) else None,
        () if children is None else tuple(member.name for member in children.members()),
    )


def make_report(handle: Handle, kind: str, state: str | None, children: tuple[str, ...]) -> ActorReport:
    """Make the report on the actor behind a handle; the other arguments are what the loop does not know. Loop thread only.

    Raises:
        NoSuchActorError: the actor has ended.
    """
    loop: Any = loop_of(handle)
    found = loop.kernel.mailbox_status(handle.__handle_actor__)
    if found is None:
        raise NoSuchActorError(f"{handle!r} has ended")
    system, control, management, data, kept, _, tag = found
    return ActorReport(
        handle.__handle_actor__,
        handle.__handle_name__,
        kind,
        loop.status(handle.__handle_actor__),
        state,
        system,
        control,
        management,
        data,
        kept,
        _handling(tag),
        loop.waits().of(handle.__handle_actor__),
        children,
    )


def _handling(tag: object) -> str | None:
    if not isinstance(tag, Method):
        return None if tag is None else "a signal, or its start"
    return "a call of a timer or of background work" if is_deferred_call(tag) else f"{tag.owner}.{tag.name}()"


def answer_inquiry(tag: object, asked: ReplyCallback, report: Callable[[], ActorReport]) -> bool:
    """Answer `ping` and `status_of` for an actor that forwards its messages, such as a pool's; False for any other message."""
    if tag is ping.method:
        asked.answer(None)
    elif tag is status_of.method:
        asked.answer(report())
    else:
        return False
    return True


def _make_handle_method(name: str, function: Any) -> HandleMethod:
    method = Method(
        "actor",
        name,
        function,
        Lane.MANAGEMENT.value,
        NO_ARGUMENTS,
        0,
        True,  # noqa: FBT003  # by position in C
        False,  # noqa: FBT003  # same
        (),
    )
    return HandleMethod(method, _bind, Ask)


ping: Inquiry[None] = Inquiry(_make_handle_method("ping", _pong))
"""`await ping(handle)` returns once the actor has handled it."""

status_of: Inquiry[ActorReport] = Inquiry(_make_handle_method("status", _report))
"""`await status_of(handle)` returns an `ActorReport`, which the actor makes in its turn."""


def peek(handle: object) -> ActorReport:
    """Return an `ActorReport` without asking the actor, which may be suspended. Loop thread only.

    Raises:
        InvalidArgumentError: it is not the handle of a typed actor.
        NoSuchActorError: the actor has ended.
        WrongThreadError: called from another thread than the loop's.
    """
    known = _checked_handle(handle)
    refresh(known)
    loop: Any = loop_of(known)
    loop.kernel.check_thread()
    instance: Any = loop.kernel.state_of(known.__handle_actor__)
    if not hasattr(instance, "__actor_handle__"):
        raise NoSuchActorError(
            f"{safe_repr(known)} has ended, has not started yet, runs in another process, or is a pool: use Pool.status() for a pool"
        )
    return _report(instance)
