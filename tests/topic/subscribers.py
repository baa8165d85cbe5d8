"""Actors for the tests of topics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core import Lagged, Lane, RuntimeEvent
from bandstand.scope import Channel
from bandstand.topic import Topic
from tests.core.support import Boom

Book = list[Any]


@dataclass(frozen=True)
class Event:
    number: int
    key: str = ""


class Listener(Actor):
    """Writes down what it hears."""

    def __init__(self, book: Book) -> None:
        self.book = book

    @tell
    def hear(self, event: Event) -> None:
        if event.number < 0:
            raise Boom("negative")
        self.book.append(event.number)

    @tell(lane=Lane.CONTROL)
    def urgent(self, event: Event) -> None:
        self.book.append(("urgent", event.number))

    @tell
    def lagging(self, lag: Lagged) -> None:
        self.book.append(("lag", lag.missed, lag.is_cut_off))

    @tell
    def runtime(self, event: RuntimeEvent) -> None:
        self.book.append(event)

    @tell
    def other(self, what: object) -> None:
        self.book.append(what)

    @tell
    def crash(self) -> None:
        raise Boom("crash")

    @ask
    def count(self) -> int:
        return len(self.book)


class Gated(Listener):
    """Handles one whenever its gate lets it."""

    def __init__(self, book: Book, gate: Channel[None]) -> None:
        super().__init__(book)
        self.gate = gate

    @tell
    async def slowly(self, event: Event) -> None:
        self.book.append(("begin", event.number))
        await self.gate.receive()
        self.book.append(event.number)


def topic_of(loop: ActorSystem, name: str = "events") -> Topic[Event]:
    return Topic(loop, Event, name=name)


def publish(topic: Topic[Event], *numbers: int) -> list[int]:
    return [topic.publish(Event(number)) for number in numbers]


def heard_by(loop: ActorSystem) -> list[RuntimeEvent]:
    """What the loop's events tell from now on."""
    heard: list[RuntimeEvent] = []
    loop.events.listen(heard.append)
    return heard


def missed_in(heard: list[RuntimeEvent]) -> list[int]:
    return [event.missed for event in heard if isinstance(event, Lagged)]
