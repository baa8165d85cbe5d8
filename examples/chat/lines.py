"""What people say, and what they type: pure, so that it can be tested without anybody connecting."""

from __future__ import annotations

from dataclasses import dataclass

LONGEST = 1000
"""How many bytes a line may have. Whoever sends more is told, and the line is skipped."""
LONGEST_NAME = 20


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was said in a room."""

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
    """Something else, and what to do about it."""

    advice: str


Wish = Say | Join | Rename | Who | Quit | Mistake

HELP = "type what you want to say, or /join ROOM, /nick NAME, /who, /quit"


def parse(text: str) -> Wish:
    """What somebody wants who has typed this."""
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
