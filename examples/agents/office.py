"""The office: a diary and notes. They are ordinary capabilities, which do not know about models."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from bandstand.bus import Capability, Command, Event, Query
from bandstand.errors import RefusedError

Day = Annotated[
    str, Meta(pattern=r"^\d{4}-\d\d-\d\d$", description="A day, as 2030-01-31.", examples=["2030-01-31"])
]
Hour = Annotated[int, Meta(ge=8, le=17, description="The hour at which it begins.", examples=[9])]
Text = Annotated[str, Meta(min_length=1, max_length=200)]

HOURS = range(8, 18)


class Hours(Struct):
    hours: list[int]


class FreeHours(Query[Hours], type="Diary.Free"):
    """Which hours of a day are free."""

    day: Day


class Booked(Struct):
    day: Day
    hour: Hour
    title: Text


class Book(Command[Booked], type="Diary.Book"):
    """Book an hour. An hour that is taken is refused: look first which are free."""

    day: Day
    hour: Hour
    title: Text


class Changed(Event, type="Diary.Changed"):
    """An hour was booked."""

    day: Day
    hour: Hour
    title: Text


class Diary(Capability):
    """Keeps appointments."""

    outbound = Changed

    def __init__(self) -> None:
        self._entries: dict[tuple[str, int], str] = {
            ("2030-01-31", hour): "the daily meeting" for hour in (8, 9, 10)
        }

    def free(self, msg: FreeHours) -> Hours:
        return Hours([hour for hour in HOURS if (msg.day, hour) not in self._entries])

    def book(self, msg: Book) -> Booked:
        taken = self._entries.get((msg.day, msg.hour))
        if taken is not None:
            raise RefusedError(f"{msg.day} at {msg.hour} is taken, by {taken!r}")
        self._entries[msg.day, msg.hour] = msg.title
        self.bus.emit(Changed(msg.day, msg.hour, msg.title))
        return Booked(msg.day, msg.hour, msg.title)


class Found(Struct):
    notes: list[str]


class Search(Query[Found], type="Notes.Search"):
    """Search the notes for a word."""

    word: Text


class Write(Command[None], type="Notes.Write"):
    """Write a note."""

    text: Text


class Notes(Capability):
    """Keeps notes, and finds them again."""

    def __init__(self) -> None:
        self._notes = ["Grace is in town on 2030-01-31 and wants an hour", "buy tea"]

    def search(self, msg: Search) -> Found:
        return Found([note for note in self._notes if msg.word.lower() in note.lower()])

    def write(self, msg: Write) -> None:
        self._notes.append(msg.text)


capabilities = [Diary, Notes]
