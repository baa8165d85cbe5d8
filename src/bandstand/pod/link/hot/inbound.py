"""Messages that come in: posted to the actors here they are for, each with a receipt that goes back when it has ended."""

# The hot modules are one mechanism in several files: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.msgpack import Ext

from bandstand.actor.context_vars import wrap_in
from bandstand.actor.handle import is_draining, post_or_wait
from bandstand.actor.wait_graph import CROSS_LOOP_WAITS, REMOTE_ARRIVALS
from bandstand.core import ExitReason, Lane
from bandstand.core.enums import NO_ACTOR
from bandstand.errors import BadMessage, NoSuchActor, PodDown
from bandstand.errors.formatting import safe_str
from bandstand.pod.link.codec import Carried, Packet, Unpacker, culprit, pack_value
from bandstand.pod.link.faults import log_unbuilt, to_fault
from bandstand.pod.link.hot.doors import Door, Inlet
from bandstand.pod.link.hot.plain import is_plain
from bandstand.pod.link.hot.receipts import Question, Tally
from bandstand.pod.link.numbers import ANSWER_LANE, ANSWERED, CANCEL, FAILED, WITHDRAWN
from bandstand.pod.passport import sending

if TYPE_CHECKING:
    from bandstand.actor.handle import Handle
    from bandstand.actor.reply import ReplyCallback
    from bandstand.core.ids import ActorId
    from bandstand.pod.link.hot.tray import Flat, Tray
    from bandstand.pod.passport import HandleCheck

Count: TypeAlias = int
LaneNumber: TypeAlias = int

NOTHING = object()
DATA_LANE = Lane.DATA


class Inbound:
    """What comes in.

    Args:
        find: gives the handle of a role of ours; None if there is no such role.
        tray: where answers wait to be written.
        unpacker: rebuilds arguments.
        carries: the context variables that travel along.
        check: says why the other side could not resolve a handle in an answer; without it, none can be sent.
        there: the pod at the other side; None for the program outside.
        here: the pod at this side, for errors.
    """

    __slots__ = (
        "_acked",
        "_asks",
        "_brought",
        "_carries",
        "_check",
        "_due",
        "_find",
        "_here",
        "_inlets",
        "_is_over",
        "_leaving",
        "_met",
        "_questions",
        "_stir",
        "_there",
        "_tray",
        "_unpack",
        "received",
    )

    def __init__(
        self,
        find: Callable[[str], Handle | None],
        tray: Tray,
        unpacker: Unpacker,
        carries: tuple[ContextVar[Any], ...],
        check: HandleCheck | None = None,
        there: str | None = None,
        here: str = "",
    ) -> None:
        self._find = find
        self._here = here
        self._check = check
        self._there = there
        self._tray = tray
        # Has what is in the tray written.
        self._stir: Callable[[], object] = list
        # Called with an ask that came while some actor of this process waits for another loop.
        self._met: Callable[[int, ActorId], object] | None = None
        self._unpack = unpacker.unpack
        self._carries = carries
        self._inlets: list[Inlet] = []
        self._questions: dict[int, Question] = {}
        self._due: list[Tally] = []
        self._is_over = False
        # The loop that was brought messages last.
        self._brought: ActorId | None = None
        self.received: Count = 0
        # How many of those were asks, and how many of the others have been acknowledged.
        self._asks: Count = 0
        self._acked: Count = 0
        # Answers whose parts are being written: until these are, nobody over there knows of them.
        self._leaving: Count = 0

    def join(self, stir: Callable[[], object], met: Callable[[int, ActorId], object] | None = None) -> None:
        """Join it with the rest of its link.

        Args:
            stir: has what is in the tray written.
            met: is given the number and the target of each ask that comes while an actor of this process waits for another loop.
        """
        self._stir = stir
        self._met = met

    def question(self, number: int) -> Question | None:
        """The ask of that number, if it has come and has not ended."""
        return self._questions.get(number)

    @property
    def owes(self) -> bool:
        """Whether something that has come was not handled to its end yet, or has an answer that is too large to be written at once."""
        due = sum([tally.handled + tally.dead + tally.dropped_count for tally in self._due])
        return bool(self._questions or self._leaving) or self.received - self._asks > self._acked + due

    def expect(self, roles: Sequence[tuple[str, Sequence[str]]]) -> None:
        """The other side has said whom it is going to address, by which methods: they are counted from 1 in this order.

        Raises:
            BadMessage: a role here has others.
        """
        for role, names in roles:
            door = Door(role, names, self._find)
            for place in range(len(names)):
                self._inlets.append(Inlet(door, place, Tally(len(self._inlets) + 1, self)))

    def take(self, flat: Flat) -> None:
        """Post a run of messages.

        Raises:
            BadMessage: this is none.
        """
        inlets = self._inlets
        most = len(inlets)
        at = 0
        end = len(flat)
        while at < end:
            code: Any = flat[at]
            if type(code) is not int or not -most <= code <= most or end - at < (3 if code < CANCEL else 2):
                raise BadMessage(
                    "a message came over the link for a method that is not known, or half of one"
                )
            value: Any = flat[at + 1]
            if code < CANCEL:
                self.take_ask(inlets[-code - 1], value, flat[at + 2])
                at += 3
                continue
            at += 2
            if code == CANCEL:
                self._cancel(value)
                continue
            self.received += 1
            inlet = inlets[code - 1]
            data: object = value
            kind = type(data)
            if kind is list:
                data = tuple(value)
            elif kind is Ext:
                data = self._rebuilt(value, inlet, inlet.tally)
                if data is NOTHING:
                    continue
            method = inlet.method
            if method is None or post_or_wait(inlet.door.actor, method, data, inlet.tally) == NO_ACTOR:
                self._refuse(inlet, data, inlet.tally)
            self._brought = inlet.door.actor

    def settle(self) -> None:
        """A burst has come in: have its actors handle it at once, if that can be, and not only in the next turn of the event loop."""
        brought = self._brought
        if brought is None:
            return
        self._brought = None
        kernel: Any = brought.home
        if kernel is not None:
            kernel.tick_inline()

    def take_ask(self, inlet: Inlet, number: Any, value: Any) -> None:
        """Post an ask.

        Raises:
            BadMessage: it has no number.
        """
        if type(number) is not int:
            raise BadMessage(f"an ask came over the link whose number is {number!r}")
        self.received += 1
        self._asks += 1
        method = inlet.method
        question = Question(
            inlet.door.actor, number, DATA_LANE if method is None else method.lane, self, method
        )
        self._questions[number] = question
        REMOTE_ARRIVALS[0] += 1
        data: object = value
        kind = type(data)
        if kind is list:
            data = tuple(value)
        elif kind is Ext:
            data = self._rebuilt(value, inlet, question)
            if data is NOTHING:
                return
        if method is None or post_or_wait(inlet.door.actor, method, data, question) == NO_ACTOR:
            self._refuse(inlet, data, question)
        self._brought = inlet.door.actor
        if CROSS_LOOP_WAITS and self._met is not None:
            self._met(number, inlet.door.actor)

    def _cancel(self, number: object) -> None:
        """An ask is taken back.

        Raises:
            BadMessage: that is no number of one.
        """
        if type(number) is not int:
            raise BadMessage(f"an ask was taken back over the link whose number is {number!r}")
        question = self._questions.pop(number, None)
        if question is not None:
            # Said now: a handler that never begins, or is cancelled, says nothing.
            self.put(number, WITHDRAWN, None)
            question.withdraw()

    def _rebuilt(self, value: Ext, inlet: Inlet, asked: ReplyCallback) -> object:
        """Arguments that were packed; NOTHING if they cannot be rebuilt, and whoever waits has been told."""
        try:
            data, carried = self._unpack(value)
        except BadMessage:
            raise
        except Exception as error:  # noqa: BLE001  # whatever somebody's unpickling raises
            why = TypeError(
                f"the arguments of a message to {inlet.door.role!r} cannot be rebuilt in its process: {safe_str(error)}"
            )
            why.__cause__ = error
            if isinstance(asked, Question):
                asked.fail(why)
            else:
                log_unbuilt(why)
                asked.lost(None, None, ExitReason.FAIL, why)
            return NOTHING
        return self._inside(data, carried, inlet.door.actor) if carried else data

    def _inside(self, data: object, carried: Carried, actor: ActorId) -> object:
        """The data of a message that is handled with context variables of its sender's."""
        context: Context = actor.home.coroutines.home_context.copy() if actor.home is not None else Context()
        for place, value in carried:
            context.run(self._carries[place].set, value)
        return wrap_in(context, data)

    def _refuse(self, inlet: Inlet, data: object, asked: ReplyCallback) -> None:
        """Nobody was there: look once more, and say so."""
        door = inlet.door
        if door.renew() or inlet.method is None:
            # Somebody else is there, or somebody at all, as another method may have found out before.
            method = inlet.resolve()
            if method is not None and post_or_wait(door.actor, method, data, asked) != NO_ACTOR:
                if isinstance(asked, Question):
                    asked.redirect(door.actor)
                return
        role = f"role {door.role!r} of pod {self._here!r}"
        if not door.methods:
            error = NoSuchActor(f"there is no {role}")
        elif is_draining(door.actor):
            error = PodDown(f"{role} is ending: it handles what it has, and accepts nothing any more")
        else:
            error = PodDown(f"{role} has ended, and accepts nothing any more")
        asked.lost(None, None, ExitReason.NORMAL, error)

    # -- what goes back ------------------------------------------------------------------------------------------------

    def note(self, tally: Tally) -> None:
        """A receipt has something to say."""
        tally.is_due = True
        self._due.append(tally)
        self._tray.is_ready = True
        self._stir()

    def acks(self) -> Flat:
        """What is to be said of one-way messages; from now on it is said."""
        flat: Flat = []
        if self._due:
            due, self._due = self._due, []
            for tally in due:
                flat += (tally.code, tally.handled, tally.dead, tally.dropped_count)
                self._acked += tally.handled + tally.dead + tally.dropped_count
                tally.handled = tally.dead = tally.dropped_count = 0
                tally.is_due = False
        return flat

    def answer(self, number: int, lane: LaneNumber, value: object) -> None:
        """An ask was answered."""
        del self._questions[number]
        if is_plain(value):
            self.put(number, ANSWERED, value)
            return
        why: TypeError | None = None
        with sending(self._check, self._there):
            try:
                packet = pack_value(value)
            except Exception as error:  # noqa: BLE001  # whatever somebody's reduce raises is the asker's to hear
                why = TypeError(
                    f"the answer cannot be sent to another process: {culprit(value, what='a value')} cannot be pickled ({safe_str(error)})"
                )
                packet = pack_value(to_fault(why))
        self._put_packet(number, lane, ANSWERED if why is None else FAILED, packet)

    def end(self, number: int, lane: int, kind: int, value: object) -> None:
        """An ask has ended without an answer."""
        self._questions.pop(number, None)
        self._put_packet(number, lane, kind, pack_value(value))

    def put(self, number: int, kind: Count, value: object) -> None:
        """Have the end of an ask written."""
        if not self._is_over:
            flat = self._tray.flat(ANSWER_LANE)
            flat.append(number)
            flat.append(kind)
            flat.append(value)
            self._tray.weigh(ANSWER_LANE, value)
            self._stir()

    def _put_packet(self, number: int, lane: int, kind: int, packet: Packet) -> None:
        if self._is_over:
            return
        if packet.parts:
            self._leaving += 1
            self._tray.depart(lane, packet, lambda: self._arrive(number, lane, kind, packet))
            self._stir()
        else:
            self.put(number, kind, packet)

    def _arrive(self, number: int, lane: int, kind: int, packet: Packet) -> None:
        """The parts of an answer are written: now itself."""
        self._leaving -= 1
        self._put_packet(number, lane, kind, packet)

    def lose(self) -> None:
        """The link is lost: nobody waits for answers any more, and handlers that are at one are cancelled."""
        self._is_over = True
        questions, self._questions = self._questions, {}
        for question in questions.values():
            question.withdraw()
