"""The lines of the chat, and the parser of what clients type. Pure functions and data, so tests need no connection."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 1000
"""The maximum number of bytes of a line. A longer one is skipped, and its sender gets a message."""
LONGEST_NAME = 20


@dataclass(frozen=True, slots=True)
class Line:
    """A line that was said in a room."""

    room: str
    name: str
    words: str

    def __str__(self) -> str:
        return f"[{self.room}] {self.name}: {self.words}"


@dataclass(frozen=True, slots=True)
class Say:
    words: str


@dataclass(frozen=True, slots=True)
class Join:
    room: str


@dataclass(frozen=True, slots=True)
class Rename:
    name: str


@dataclass(frozen=True, slots=True)
class Who:
    pass


@dataclass(frozen=True, slots=True)
class Quit:
    pass


@dataclass(frozen=True, slots=True)
class Mistake:
    """An invalid command, with advice."""

    advice: str


Wish = Say | Join | Rename | Who | Quit | Mistake

HELP = "type what you want to say, or /join ROOM, /nick NAME, /who, /quit"


def parse(text: str) -> Wish:
    """Parse a line that a client has typed."""
    if not text.startswith("/"):
        return Say(text)
    verb, _, rest = text[1:].partition(" ")
    rest = rest.strip()
    match verb:
        case "join" | "nick":
            if not rest.isidentifier() or len(rest) > LONGEST_NAME:
                return Mistake(f"/{verb} needs a name: at most {LONGEST_NAME} letters and digits, no spaces")
            return Join(rest) if verb == "join" else Rename(rest)
        case "who":
            return Who()
        case "quit":
            return Quit()
        case _:
            return Mistake(f"there is no /{verb}: {HELP}")
