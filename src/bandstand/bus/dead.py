"""`Dead`: the dead letters of a node, to be looked at, sent again, and thrown away.

It is a Worker: to send a letter again takes as long as its handler takes, and meanwhile others want to look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from msgspec import Meta, Struct

from bandstand.bus.contracts.contract import Contract, RestartLimits
from bandstand.bus.contracts.messages import Command, Message, Query
from bandstand.bus.faults import OVERLOADED, FaultAnswer
from bandstand.bus.frame import LONGEST_TIMEOUT_MS, Frame, Kind, Metadata
from bandstand.bus.genealogy import ancestors_of, read_lineage
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.letters import Letter, Reason
from bandstand.bus.origin import Encore
from bandstand.bus.tap import Filter
from bandstand.bus.watching import Pattern
from bandstand.bus.worker import ErrorEvent, Listeners, MessageEvent
from bandstand.errors import BadMessage, Refused

if TYPE_CHECKING:
    from bandstand.bus.backstage import Backstage

__all__ = (
    "DeadLetter",
    "LetterPage",
    "List",
    "Purge",
    "Purged",
    "Replay",
    "Replayed",
    "Show",
    "Shown",
    "dead_of",
)

# An id, and room for the number that is added where a letter has it already.
LetterId = Annotated[
    str, Meta(min_length=1, max_length=220, description="The id of a letter.", examples=["mine-1"])
]


class DeadLetter(Struct, rename="camel", omit_defaults=True):
    """One message that the bus could not deliver or answer."""

    id: str
    """The id of the message; with a number added where another letter has that."""
    reason: Reason
    kind: Kind
    type: str
    at: int
    """When, in milliseconds since 1970."""
    attempts: int
    """How often it was tried, by retries and replays too."""
    said: str
    """What went wrong, in a sentence."""
    bytes: int
    """How many bytes of data are kept of it."""
    capability: str | None = None
    """Whom it was for, if anybody."""
    causation: str | None = None
    correlation: str | None = None


class LetterPage(Struct):
    """Dead letters, the newest first."""

    letters: list[DeadLetter]
    held: int
    """How many there are in all."""
    fallen: int
    """How many have fallen out of the store, because there was no more room."""


class Shown(Struct):
    """A dead letter with all that is known of it."""

    letter: DeadLetter
    message: Frame
    answer: Frame | None
    """What was answered, if somebody has asked."""
    lineage: list[Frame]
    """What the message follows from, the oldest first, as far as the log has it."""


class Replayed(Struct):
    """How it went this time."""

    id: str
    replay: str
    """The id of the message that was sent."""
    outcome: Literal["replied", "failed", "delivered"]
    """Replied, and the letter is removed; failed, and it stays; or, for an event, delivered to its subscriber, and removed."""
    answer: Frame | None


class Purged(Struct):
    """How many letters were thrown away."""

    purged: int


class List(Query[LetterPage], type="Dead.List", remember=False):
    """List what could not be delivered or answered, the newest first."""

    type: Pattern | None = None
    reason: Reason | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
    before: Annotated[LetterId | None, Meta(description="Only those that are older than this letter.")] = None


class Show(Query[Shown], type="Dead.Show", remember=False):
    """Show one dead letter: the whole message, what was answered, and what it follows from."""

    id: LetterId


class Replay(Command[Replayed], type="Dead.Replay"):
    """Send a dead letter again: its handler runs, with the letter's message as the cause. It is removed if that goes well."""

    id: LetterId


class Purge(Command[Purged], type="Dead.Purge"):
    """Throw dead letters away: those that have this id, type and reason; all, if nothing is said."""

    id: LetterId | None = None
    type: Pattern | None = None
    reason: Reason | None = None


def dead_of(backstage: Backstage) -> Contract:
    """The capability, for one node."""
    return Contract(
        id="Dead",
        description="Keeps what could not be delivered or answered, to be looked at, sent again, or thrown away.",
        inbound=List | Show | Replay | Purge,
        spawn=lambda: Dead(backstage),
        policy=RestartLimits(max_restarts=1_000_000, backoff_ms=100),
        # What is sent again has a deadline of its own, whatever that is.
        timeout_ms=LONGEST_TIMEOUT_MS,
    )


class Dead(Listeners):
    """Looks after dead letters."""

    def __init__(self, backstage: Backstage) -> None:
        self._backstage = backstage
        self._router = backstage.router
        self._letters = backstage.router.letters

    def post_message(self, message: Message, /) -> None:
        """Take one request, and answer it, at once or when it is known how it went."""
        assert message.metadata is not None
        name, data = message.metadata.id, message.data
        try:
            if isinstance(data, List):
                self._reply(name, List, self._list(data))
            elif isinstance(data, Show):
                self._reply(name, Show, self._show(self._find(data.id)))
            elif isinstance(data, Purge):
                self._reply(name, Purge, self._purge(data))
            elif isinstance(data, Replay):
                self._replay(name, self._find(data.id))
        except Refused as refusal:
            self.dispatch_event(ErrorEvent(refusal, name))

    def terminate(self) -> None:
        """Nothing runs here: what was sent again goes its way."""

    def _reply(self, name: str, kind: type[Query[object] | Command[object]], data: object) -> None:
        said = Message(kind="reply", type=kind.message_type, data=data)
        self.dispatch_event(MessageEvent(said, name))

    def _find(self, name: str) -> Letter:
        letter = self._letters.find(name)
        if letter is None:
            raise Refused(
                f"there is no dead letter {name}: it was sent again, purged, or has fallen out; Dead.List says which there are"
            )
        return letter

    def _list(self, msg: List) -> LetterPage:
        letters = iter(self._letters)
        if msg.before is not None:
            before = self._find(msg.before)
            while next(letters) is not before:
                pass
        found: list[DeadLetter] = []
        for letter in letters:
            if len(found) == msg.limit:
                break
            if matches(letter, msg.type, msg.reason):
                found.append(told(letter))
        return LetterPage(found, len(self._letters), self._letters.fallen)

    def _show(self, letter: Letter) -> Shown:
        above = letter.frame.metadata.causation
        kin = () if above is None else read_lineage(self._router.log, above)
        return Shown(told(letter), letter.frame, letter.answer, ancestors_of(kin, letter.frame))

    def _purge(self, msg: Purge) -> Purged:
        chosen = list(self._letters) if msg.id is None else [self._find(msg.id)]
        purged = [self._letters.remove(letter) for letter in chosen if matches(letter, msg.type, msg.reason)]
        return Purged(len(purged))

    # -- again -------------------------------------------------------------------------------------------------------------

    def _replay(self, name: str, letter: Letter) -> None:
        if letter.is_replayed:
            raise Refused(f"the dead letter {letter.id} is being sent again just now; wait for how that goes")
        frame = self._anew(letter.frame)
        if frame.kind == "event":
            self._settle(name, letter, frame, None, is_good=self._deliver(letter, frame))
            return

        def settle(answer: Frame) -> None:
            self._settle(name, letter, frame, answer, is_good=answer.kind == "reply")

        router = self._router
        # By position: it is hot.
        if not router.submit(Pending(Encore(settle), frame, router.inside, False)):  # noqa: FBT003
            words = f"as many requests are under way as the node allows; {letter.id} was not sent again: try later"
            raise Refused(FaultAnswer(OVERLOADED, words))
        letter.is_replayed = True

    def _anew(self, frame: Frame) -> Frame:
        """The same message, as one that follows from the first."""
        own, ids = frame.metadata, self._router.ids
        route = self._router.find(frame.kind, frame.type)
        # Not less than is usual: what its client had left of its time says nothing about now.
        timeout = own.timeout if route is None or (own.timeout or 0) > route.timeout_ms else None
        metadata = Metadata(ids(), ids.last_ms, own.id, own.correlation, timeout)
        return Frame(kind=frame.kind, type=frame.type, data=frame.data, metadata=metadata)

    def _deliver(self, letter: Letter, frame: Frame) -> bool:
        """Hand an event to the one subscriber that has missed it."""
        fanout = self._backstage.fanout
        route = fanout.route_to(frame.type, letter.capability or "")
        if route is None:
            return False
        self._router.note(frame, route.seat.id)
        try:
            payload = route.read(frame.data)
        except BadMessage:
            return False
        return fanout.deliver(Delivery(frame, route, payload))

    def _settle(
        self, name: str, letter: Letter, frame: Frame, answer: Frame | None, *, is_good: bool
    ) -> None:
        letter.is_replayed = False
        if is_good:
            self._letters.remove(letter)
        else:
            letter.attempts += 1
        outcome: Literal["replied", "failed", "delivered"] = "replied" if answer is not None else "delivered"
        told = Replayed(letter.id, frame.metadata.id, outcome if is_good else "failed", answer)
        self._reply(name, Replay, told)


def matches(letter: Letter, pattern: str | None, reason: Reason | None) -> bool:
    """Whether a letter is one of those that are asked for."""
    return (reason is None or letter.reason == reason) and (
        pattern is None or Filter(types=[pattern]).matches(letter.frame)
    )


def told(letter: Letter) -> DeadLetter:
    """A letter as it is told to others."""
    frame = letter.frame
    return DeadLetter(
        id=letter.id,
        reason=letter.reason,
        kind=frame.kind,
        type=frame.type,
        at=letter.at_ms,
        attempts=letter.attempts,
        said=letter.said,
        bytes=letter.size,
        capability=letter.capability,
        causation=frame.metadata.causation,
        correlation=frame.metadata.correlation,
    )
