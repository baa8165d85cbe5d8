"""A stand-in: an actor on the porch that stands for one in another process. What it is sent, it passes on.

So everything that a sender can do with a local actor it can do with a remote one: ask, wait for room, be refused. A message that was
passed on keeps its slot in the stand-in's lane until the other side says what became of it: a sender meets `MailboxFull` when as many
are under way as the remote mailbox may hold. An actor that gives messages up when its mailbox is full does so over there; its stand-in holds
nothing back, but pauses while the socket takes nothing, and then its own mailbox follows the same policy.

Whoever stops or kills it means the actor it stands for: unless the link was lost, its end is passed on like everything else.
"""

# The hot modules are one mechanism in several files: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from bandstand.actor.reply import ReplyCallback
from bandstand.actor.schema import methods_of
from bandstand.core import ExitReason, Overflow
from bandstand.errors import UnknownMessage
from bandstand.pod.link.hot.outlet import Channel, Outlet
from bandstand.pod.link.numbers import DRAIN, KILL, STOP

if TYPE_CHECKING:
    from bandstand.core import Context
    from bandstand.core.ids import ActorId
    from bandstand.core.loop import Loop
    from bandstand.pod.link.hot.ledger import Ledger
    from bandstand.pod.link.hot.outgoing import Outgoing


Count: TypeAlias = int
LaneNumber: TypeAlias = int


class Role(Protocol):
    """What a stand-in must know of the actor it stands for."""

    @property
    def kind(self) -> type[Any]:
        """The class of the actor."""
        ...

    @property
    def mailbox_cap(self) -> int | None:
        """Slots of its mailbox."""
        ...

    @property
    def overflow(self) -> Overflow:
        """What a full lane of it does with one message more."""
        ...


class StandIn:
    """The actor that stands for a remote one."""

    __slots__ = ("_is_draining", "_is_lost", "_outgoing", "_outlets", "_porch", "actor", "holds", "role")

    def __init__(
        self, porch: Loop, role: str, spec: Role, there: str, ledger: Ledger, outgoing: Outgoing
    ) -> None:
        self.role = role
        self._porch = porch
        self._outgoing = outgoing
        self.holds = spec.overflow is Overflow.REJECT
        channels: dict[int, Channel] = {}
        self._outlets: dict[object, Outlet] = {}
        for method in methods_of(spec.kind):
            channel = channels.setdefault(method.lane, Channel(self, method.lane))
            self._outlets[method] = ledger.open(method, channel)
        self.actor: ActorId = porch.spawn(
            self.pass_on, name=f"{role} in {there}", mailbox_cap=spec.mailbox_cap, overflow=spec.overflow
        )
        # Whoever closes the link says why; of another end the other side tells.
        porch.kernel.actors.set_exit_handled(self.actor)
        self._is_lost = False
        # Whether the other side is to be told of our end as soon as it has handled what was passed on.
        self._is_draining = False
        porch.kernel.actors.on_exit(self.actor, self._pass_on_end)

    def pass_on(self, turn: Context[Any], data: object) -> Any:
        """The behavior: one message goes to the other side."""
        outlet = self._outlets.get(turn.tag)
        if outlet is None:
            # Something that was sent past the handle, or what every actor answers but does not cross a link.
            sender: object = turn.sender
            if isinstance(sender, ReplyCallback):
                sender.fail(
                    UnknownMessage(
                        f"{self.role!r} lives in another process, where only the methods of its class can be asked, and not {turn.tag!r}: "
                        f"declare one with @ask"
                    )
                )
            return None
        if self.holds:
            # What it has passed on is counted as if it were still in its mailbox, until the other side says that it has ended.
            self._porch.kernel.hold_slot(self.actor, outlet.lane)
        if outlet.is_ask:
            asked: ReplyCallback = turn.sender  # type: ignore[assignment]  # an ask has one
            self._outgoing.ask(outlet, asked, data)
        else:
            self._outgoing.send(outlet, turn.sender, data)
        if not self.holds and self._outgoing.is_choked():
            return self._outgoing.unchoked()
        return None

    def free(self, lane: LaneNumber, count: Count) -> None:
        """So many messages of a lane have ended over there."""
        if self.holds:
            self._porch.kernel.free_slots(self.actor, lane, count)
        if self._is_draining:
            self._drain()

    def _pass_on_end(self, reason: ExitReason, _cause: BaseException | None) -> None:
        """Somebody here has ended it. With a slot still held it was not drained, but stopped."""
        if self._is_lost:
            return
        if reason is not ExitReason.NORMAL:
            self._outgoing.end(self.role, KILL)
        elif self.holds and self._is_awaited():
            self._outgoing.end(self.role, STOP)
        else:
            self._is_draining = True
            self._drain()

    def _drain(self) -> None:
        if not self._is_lost and not self._is_awaited():
            self._is_draining = False
            self._outgoing.end(self.role, DRAIN)

    def _is_awaited(self) -> bool:
        """Whether the other side has not said yet what became of all that was passed on."""
        return self._outgoing.is_awaited(self)

    def end(self, cause: BaseException) -> None:
        """The link is lost, and so is what waits here."""
        self._is_lost = True
        self._porch.kernel.actors.stop_or_kill(self.actor, cause)
