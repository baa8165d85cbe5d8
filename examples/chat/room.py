"""A room: its guests, and its last lines. It publishes lines on a topic.

The topic belongs to the server and not to the room. So a room that fails can be restarted, and its guests get the
next line as before.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from bandstand import Actor, ask, tell
from bandstand.topic import Policy, Topic, TopicSubscription
from examples.chat.lines import Line

if TYPE_CHECKING:
    from examples.chat.session import Session

# How many lines wait for a slow guest before the oldest are dropped, and how many a new guest gets.
ROOM = 50
HISTORY = 5


class Guests:
    """The guests of a room, and their subscriptions. It outlives the incarnations of the room, as the topic does."""

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
        """Remove guests whose actor has ended, because their subscription ends with it. This costs as much as one line."""
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
        """Enter the room, and return its last lines."""
        self._guests.add(session, name)
        return tuple(self._guests.history)

    @tell
    def leave(self, session: Session) -> None:
        self._guests.remove(session)

    @tell
    def say(self, line: Line) -> None:
        if line.words == "(the word that breaks it)":
            raise ValueError("the room cannot handle this word")
        self._guests.history.append(line)
        self._guests.topic.publish(line)

    @ask
    def who(self) -> list[str]:
        return self._guests.names()
