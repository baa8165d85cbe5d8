"""Asking an actor how it is: `ping` and `status_of`, which every typed actor answers, and `peek`, which asks nobody.

The first two are real messages, by the MANAGEMENT lane: an answer proves that the actor takes its turns. An actor that is suspended in
a handler, or blocked, does not answer, and they end with `AskTimeout`, which names it; then `peek` and `Loop.waits` tell what it is at.
Ordinary messages pay nothing for this: these are two methods that no class declares.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, final

from bandstand.actor.actor import DEFAULT_ASK_MS
from bandstand.actor.enums import NOTHING
from bandstand.actor.faces import Ask, Reply, checked_ask_ms
from bandstand.actor.hot.asks import Asked
from bandstand.actor.hot.handle import Handle
from bandstand.actor.hot.method import Method
from bandstand.actor.hot.port import Port
from bandstand.actor.jobs import is_job
from bandstand.actor.outside import loop_of
from bandstand.core import ActorStatus, Lane
from bandstand.errors import InvalidArgument, NoSuchActor
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.waiting import WaitFor
    from bandstand.core import ActorId

__all__ = ("ActorReport", "Inquiry", "answer_inquiry", "peek", "ping", "report_of", "status_of")

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class ActorReport:
    """How an actor stands at one moment."""

    actor: ActorId
    name: str | None
    kind: str
    """The name of its class."""
    status: ActorStatus
    state: str | None
    """The state of a `Machine`; None for any other actor."""
    waiting_system: int
    waiting_control: int
    waiting_management: int
    waiting_data: int
    """How many messages wait, by lane."""
    kept: int
    """How many messages it has put aside, in all its stashes."""
    handling: str | None
    """The method in which it is suspended; None if it is not. In the answer of `status_of` it never is: it is answering."""
    waits_for: tuple[WaitFor, ...]
    """What its handler waits for, of other actors, and since when."""
    children: tuple[str, ...]
    """The names of those it has started, work in the background included."""

    @property
    def waiting(self) -> int:
        """How many messages wait, all lanes together."""
        return self.waiting_system + self.waiting_control + self.waiting_management + self.waiting_data


@final
class Inquiry(Generic[R]):
    """A question that every typed actor answers. `await ping(handle)`; `ping.blocking(handle)` from a plain thread."""

    __slots__ = ("_port",)

    def __init__(self, port: Port) -> None:
        self._port = port

    def __call__(self, handle: object, /, *, ms: float | None = DEFAULT_ASK_MS) -> Reply[R]:
        """Ask, with a deadline of 5 s if nothing is said: `await` the reply. As any ask, and from where any ask can be made.

        Raises:
            InvalidArgument: it is no handle of a typed actor; a raw one has no methods, and cannot be asked this.
            MailboxFull, NoSuchActor, LoopClosed: nothing was sent.
        """
        return self._face(handle, ms)()

    def blocking(self, handle: object, /, *, ms: float | None = DEFAULT_ASK_MS) -> R:
        """The same from a plain thread, which waits."""
        return self._face(handle, ms).blocking()

    def future(self, handle: object, /, *, ms: float | None = DEFAULT_ASK_MS) -> Future[R]:
        """The same from a plain thread, as a future."""
        return self._face(handle, ms).future()

    def _face(self, handle: object, ms: float | None) -> Ask[[], R]:
        return Ask(_checked(handle), self._port, checked_ask_ms("ms", ms))

    def __repr__(self) -> str:
        return f"<{self._port.method.name}, which every typed actor answers>"


def _checked(handle: object) -> Handle:
    if not isinstance(handle, Handle):
        raise InvalidArgument(
            f"{safe_repr(handle)} is no handle of a typed actor: pass what spawn() returned for a class. A raw actor has no methods; see Loop.tree() "
            f"for what is known of it"
        )
    return handle


def _bind(_handle: object) -> None:
    """There are no arguments."""


def _pong(_actor: object) -> None:
    """An answer is the answer."""


def _report(actor: Any) -> ActorReport:
    """How an actor stands; called in its own turn, or by whoever looks at it on its thread."""
    family = actor._bs_brood
    return report_of(
        actor._bs_me,
        type(actor).__qualname__,
        actor.state.name if hasattr(actor, "_bs_plan") else None,
        () if family is None else tuple(member.name for member in family.members()),
    )


def report_of(me: Handle, kind: str, state: str | None, children: tuple[str, ...]) -> ActorReport:
    """How the actor behind a handle stands, with what the loop cannot know. Loop thread only."""
    loop: Any = loop_of(me)
    seen = loop._insight(me._bs_actor)
    if seen is None:
        raise NoSuchActor(f"{me!r} has ended")
    system, control, management, data, kept, _, tag = seen
    return ActorReport(
        me._bs_actor,
        me._bs_name,
        kind,
        loop.status(me._bs_actor),
        state,
        system,
        control,
        management,
        data,
        kept,
        _handling(tag),
        loop.waits().of(me._bs_actor),
        children,
    )


def answer_inquiry(tag: object, asked: Asked, report: Callable[[], ActorReport]) -> bool:
    """Answer `ping` and `status_of` for an actor that is not its class itself, as a pool's; False if it was asked something else."""
    if tag is ping._port.method:
        asked.answer(None)
    elif tag is status_of._port.method:
        asked.answer(report())
    else:
        return False
    return True


def _handling(tag: object) -> str | None:
    if not isinstance(tag, Method):
        return None if tag is None else "a signal, or its start"
    return "a timer's call, or one of its own work" if is_job(tag) else f"{tag.owner}.{tag.name}()"


def _port(name: str, function: Any) -> Port:
    method = Method(
        "actor",
        name,
        function,
        Lane.MANAGEMENT.value,
        NOTHING,
        0,
        True,  # noqa: FBT003  # by position in C
        False,  # noqa: FBT003  # same
        (),
    )
    return Port(method, _bind, Ask)


ping: Inquiry[None] = Inquiry(_port("ping", _pong))
"""`await ping(handle)`: returns when the actor has taken its turn to answer."""

status_of: Inquiry[ActorReport] = Inquiry(_port("status", _report))
"""`await status_of(handle)`: an `ActorReport`, made by the actor in its turn."""


def peek(handle: object) -> ActorReport:
    """An `ActorReport` without asking the actor, which may be suspended: looked at from outside. Loop thread only.

    Raises:
        InvalidArgument: it is no handle of a typed actor.
        NoSuchActor: it has ended.
        WrongThread: called off the loop's thread.
    """
    known = _checked(handle)
    known._bs_refresh()
    loop: Any = loop_of(known)
    loop._check_thread()
    instance: Any = loop._state_of(known._bs_actor)
    if not hasattr(instance, "_bs_me"):
        raise NoSuchActor(
            f"{safe_repr(known)} has ended, or is not started yet, or lives in another process, or is a pool's: use Pool.status() there"
        )
    return _report(instance)
