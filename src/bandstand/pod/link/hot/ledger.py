"""The ledger of what this end has sent: what is not acknowledged yet, and what became of the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec.msgpack import Ext

from bandstand.actor.dispatch import Method
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ExitReason, Lane
from bandstand.errors import ActorKilled, BadMessage
from bandstand.errors.formatting import safe_str
from bandstand.pod.link.codec import Packet, Unpacker
from bandstand.pod.link.faults import from_fault
from bandstand.pod.link.hot.outlet import Channel, Outlet
from bandstand.pod.link.letter import Undelivered
from bandstand.pod.link.numbers import ANSWERED, CANCEL, DROPPED, FAILED, LOST, WITHDRAWN

if TYPE_CHECKING:
    from bandstand.pod.link.hot.standin import StandIn
    from bandstand.pod.link.hot.tray import Piece

Count: TypeAlias = int

ENDED = "its actor had ended, or could not be given it"


class Noted:
    """A one-way message whose sender wants to know what became of it."""

    __slots__ = ("asked", "data")

    def __init__(self, asked: ReplyCallback, data: object) -> None:
        self.asked = asked
        self.data = data


class Question:
    """An ask that is not answered yet."""

    __slots__ = ("asked", "data", "is_out", "outlet")

    def __init__(self, outlet: Outlet, asked: ReplyCallback, data: object) -> None:
        self.outlet = outlet
        self.asked = asked
        self.data = data
        # Whether it does not stand in a line behind something large, or is large itself.
        self.is_out = False


class Ledger:
    """What became of messages.

    Args:
        there: the pod at the other end.
        unpacker: rebuilds answers.
        on_dead: is told of every message that is not handled as far as anybody knows.
    """

    __slots__ = (
        "_last_question",
        "_on_dead",
        "_outlets",
        "_there",
        "_unpack",
        "dead",
        "dropped",
        "handled",
        "in_doubt",
        "questions",
        "sent",
    )

    def __init__(self, there: str, unpacker: Unpacker, on_dead: Callable[[Undelivered], object]) -> None:
        self._there = there
        self._unpack = unpacker.unpack
        self._on_dead = on_dead
        self._outlets: dict[int, Outlet] = {}
        self.questions: dict[int, Question] = {}
        self._last_question: Count = 0
        self.sent: Count = 0
        self.handled: Count = 0
        self.dead: Count = 0
        self.dropped: Count = 0
        self.in_doubt: Count = 0

    def open(self, method: Method, channel: Channel) -> Outlet:
        """Give a method of the other side its number: they are counted from 1, in the order of roles and their methods."""
        outlet = Outlet(method, len(self._outlets) + 1, channel)
        self._outlets[outlet.code] = outlet
        return outlet

    def enter(self, outlet: Outlet, data: object, sender: object) -> None:
        """A one-way message is sent."""
        self.sent += 1
        outlet.pending.append(Noted(sender, data) if isinstance(sender, ReplyCallback) else data)

    def enter_ask(self, outlet: Outlet, data: object, asked: ReplyCallback) -> Count:
        """An ask is sent; its number."""
        self.sent += 1
        self._last_question += 1
        self.questions[self._last_question] = Question(outlet, asked, data)
        return self._last_question

    def is_open(self, stand_in: StandIn) -> bool:
        """Whether something that a stand-in has sent has no fate yet."""
        return any(
            outlet.pending for outlet in self._outlets.values() if outlet.channel.stand_in is stand_in
        ) or any(question.outlet.channel.stand_in is stand_in for question in self.questions.values())

    # -- what became of it ---------------------------------------------------------------------------------------------

    def take_acks(self, flat: Sequence[int]) -> None:
        """So many one-way messages have ended.

        Raises:
            BadMessage: there were not so many.
        """
        check_whole(flat, 4)
        at = 0
        end = len(flat)
        while at < end:
            outlet = self._outlets.get(flat[at])
            handled = flat[at + 1]
            dead = flat[at + 2]
            dropped = flat[at + 3]
            at += 4
            count = handled + dead + dropped
            if outlet is None or min(handled, dead, dropped) < 0 or count > len(outlet.pending):
                raise BadMessage("an acknowledgement came over the link for messages that were not sent")
            self.handled += handled
            self.dead += dead
            self.dropped += dropped
            self.settle(outlet, handled, dead, dropped)
            outlet.channel.stand_in.free(outlet.lane, count)

    def settle(self, outlet: Outlet, handled: Count, dead: Count, dropped: Count) -> None:
        """So many of the oldest messages of a method have ended, by what became of them."""
        pending = outlet.pending
        for _ in range(handled):
            one = pending.popleft()
            if type(one) is Noted:
                one.asked.answer(None)
        for _ in range(dead):
            self._bury(outlet, pending.popleft(), ENDED, is_in_doubt=False)
        for _ in range(dropped):
            one = pending.popleft()
            if type(one) is Noted:
                stand_in = outlet.channel.stand_in
                one.asked.dropped(stand_in.actor, stand_in.role)

    def take_answers(self, flat: Sequence[Any]) -> None:
        """Asks have ended.

        Raises:
            BadMessage: they were not asked.
        """
        check_whole(flat, 3)
        at = 0
        end = len(flat)
        while at < end:
            number: Any = flat[at]
            question = self.questions.pop(number, None) if type(number) is int else None
            if question is None:
                raise BadMessage(f"an answer came over the link to ask {number!r}, which is not open")
            ending: Any = flat[at + 1]
            value: Any = flat[at + 2]
            at += 3
            question.asked.relay = None
            try:
                if ending == ANSWERED:
                    answer: object = value
                    kind = type(answer)
                    if kind is Ext:
                        self._answer_packed(question, value)
                    else:
                        question.asked.answer(tuple(value) if kind is list else answer)
                    self.handled += 1
                else:
                    self._end(question, ending, value)
            except BaseException:
                # It makes no sense, and so the link is lost: then whoever asked is told with all the others.
                self.questions[number] = question
                raise
            question.outlet.channel.stand_in.free(question.outlet.lane, 1)

    def _answer_packed(self, question: Question, value: Ext) -> None:
        try:
            answer, _ = self._unpack(value)
        except BadMessage:
            raise
        except Exception as error:  # noqa: BLE001  # whatever somebody's unpickling raises is the asker's to hear
            method = question.outlet.method
            why = TypeError(
                f"what {method.owner}.{method.name}() has answered cannot be rebuilt in this process: {safe_str(error)}"
            )
            why.__cause__ = error
            question.asked.fail(why)
        else:
            question.asked.answer(answer)

    def _end(self, question: Question, ending: Any, value: Any) -> None:
        """An ask has ended without an answer."""
        stand_in = question.outlet.channel.stand_in
        asked = question.asked
        if ending == WITHDRAWN:
            self.handled += 1
        elif ending == FAILED:
            asked.fail(from_fault(self._unpack(value)[0]))
            self.handled += 1
        elif ending == DROPPED:
            self.dropped += 1
            asked.dropped(stand_in.actor, stand_in.role)
        elif ending == LOST:
            reason, fault = self._unpack(value)[0]
            cause = None if fault is None else from_fault(fault)
            self.dead += 1
            self._tell(question.outlet, question.data, ENDED, is_in_doubt=False)
            asked.lost(stand_in.actor, stand_in.role, reason, cause)
        else:
            raise BadMessage(f"an answer of a kind that is not known came over the link: {ending}")

    # -- the end -------------------------------------------------------------------------------------------------------

    def lose(self, reason: str, unsent: Sequence[Piece], *, is_certain: bool) -> None:
        """The link is lost. What was not entirely written is dead; what was, and is not acknowledged, is in doubt.

        Unless the other side has said that it has acknowledged all it has taken: then nothing is in doubt.
        """
        tells, asks = self._unsent(unsent)
        for outlet in self._outlets.values():
            pending = list(outlet.pending)
            outlet.pending.clear()
            doubtful = 0 if is_certain else len(pending) - tells.get(outlet.code, 0)
            self.in_doubt += doubtful
            self.dead += len(pending) - doubtful
            for place, one in enumerate(pending):
                self._bury(outlet, one, reason, is_in_doubt=place < doubtful)
        questions, self.questions = self.questions, {}
        for number, question in questions.items():
            is_in_doubt = question.is_out and number not in asks and not is_certain
            if is_in_doubt:
                self.in_doubt += 1
            else:
                self.dead += 1
            question.asked.relay = None
            self._tell(question.outlet, question.data, reason, is_in_doubt=is_in_doubt)
            self._lose_asked(question.outlet, question.asked, reason, is_in_doubt=is_in_doubt)

    def _unsent(self, unsent: Sequence[Piece]) -> tuple[dict[int, int], set[int]]:
        """How many one-way messages of each method were not written, and which asks."""
        tells = dict.fromkeys(self._outlets, 0)
        asks: set[int] = set()
        for piece in unsent:
            flat, at = piece.flat, 0
            while at < len(flat):
                code = flat[at]
                if code > CANCEL:
                    tells[code] += 1
                elif code < CANCEL:
                    asks.add(flat[at + 1])
                    at += 1
                at += 2
        for channel in {outlet.channel for outlet in self._outlets.values()}:
            for outlet, number, _ in channel.line or ():
                # Asks know by themselves that they stand there.
                if not number:
                    tells[outlet.code] += 1
        return tells, asks

    def _bury(self, outlet: Outlet, one: object, reason: str, *, is_in_doubt: bool) -> None:
        if type(one) is Noted:
            self._lose_asked(outlet, one.asked, reason, is_in_doubt=is_in_doubt)
            one = one.data
        self._tell(outlet, one, reason, is_in_doubt=is_in_doubt)

    def _lose_asked(self, outlet: Outlet, asked: ReplyCallback, reason: str, *, is_in_doubt: bool) -> None:
        doubt = "whether it has handled this is in doubt" if is_in_doubt else "it has not had this"
        cause = ActorKilled(f"pod {self._there!r} is out of reach ({reason}): {doubt}")
        stand_in = outlet.channel.stand_in
        asked.lost(stand_in.actor, stand_in.role, ExitReason.FAIL, cause)

    def _tell(self, outlet: Outlet, data: object, reason: str, *, is_in_doubt: bool) -> None:
        method = outlet.method
        self._on_dead(
            Undelivered(
                self._there,
                outlet.channel.stand_in.role,
                f"{method.owner}.{method.name}",
                Lane(outlet.lane),
                is_in_doubt,
                reason,
                None if type(data) is Packet else data,
            )
        )


def check_whole(flat: Sequence[Any], size: Count) -> None:
    """Refuse a run that ends in the middle of an entry."""
    if len(flat) % size:
        raise BadMessage("an answer or an acknowledgement came over the link, and half of one")
