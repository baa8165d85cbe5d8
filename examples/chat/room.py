"""A room: who is in it, and what was said last. What is said goes out by its topic.

The topic belongs to the house and not to the room: a room that fails is started again, and whoever listens hears the next line as if
nothing had happened.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bandstand import Actor, ask, tell
from bandstand.topic import Policy, Topic, TopicSubscription
from examples.chat.lines import Line

if TYPE_CHECKING:
    from examples.chat.session import Session

# How many lines somebody may be behind before he misses some; and how many he is shown who comes in.
ROOM = 50
HISTORY = 5


class Guests:
    """Who is in a room, and their subscriptions. It outlives the room's incarnations, as the topic does."""

    def __init__(self, topic: Topic[Line]) -> None:
        self.topic = topic
        self.history: deque[Line] = deque(maxlen=HISTORY)
        self._subscriptions: dict[Session, tuple[str, TopicSubscription[Line]]] = {}

    def add(self, session: Session, name: str) -> None:
        self.remove(session)
        self._forget_those_who_have_gone()
        subscription = self.topic.subscribe(
            session.hear, policy=Policy.DROP_OLDEST, room=ROOM, on_lag=session.fall_behind
        )
        self._subscriptions[session] = (name, subscription)

    def remove(self, session: Session) -> None:
        known = self._subscriptions.pop(session, None)
        if known is not None:
            known[1].cancel()

    def names(self) -> list[str]:
        self._forget_those_who_have_gone()
        return sorted(name for name, _ in self._subscriptions.values())

    def __len__(self) -> int:
        return len(self._subscriptions)

    def _forget_those_who_have_gone(self) -> None:
        """A subscription ends with its actor. Looking at all of them costs no more than a line that is said."""
        gone = [
            session
            for session, (_, subscription) in self._subscriptions.items()
            if not subscription.is_active
        ]
        for session in gone:
            del self._subscriptions[session]


class Room(Actor):
    def __init__(self, guests: Guests) -> None:
        self._guests = guests

    @ask
    def join(self, session: Session, name: str) -> tuple[Line, ...]:
        """Come in; what was said last."""
        self._guests.add(session, name)
        return tuple(self._guests.history)

    @tell
    def leave(self, session: Session) -> None:
        self._guests.remove(session)

    @tell
    def say(self, line: Line) -> None:
        if line.words == "(the word that breaks it)":
            raise ValueError("nobody has thought of this word")
        self._guests.history.append(line)
        self._guests.topic.publish(line)

    @ask
    def who(self) -> list[str]:
        return self._guests.names()
