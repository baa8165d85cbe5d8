"""Who waits for whom, as data and as a picture: what to look at when nothing goes on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bandstand.core import ActorId

__all__ = ("WaitFor", "Waits")


@dataclass(frozen=True, slots=True)
class WaitFor:
    """One actor waits, in its turn, for another."""

    asker: ActorId
    asker_name: str | None
    target: ActorId
    """Whom it waits for; for an ask that is handled out of turn, whoever handles it."""
    target_name: str | None
    what: str
    """For people: the method that was asked, or `its end`."""
    since_ms: float
    """How long ago it was asked, in milliseconds."""

    def __str__(self) -> str:
        return (
            f"{_called(self.asker, self.asker_name)} waits for {_called(self.target, self.target_name)}: {self.what}, "
            f"{self.since_ms:.0f} ms"
        )


@dataclass(frozen=True, slots=True)
class Waits:
    """Everybody on a loop who waits in his turn, at one moment. `str(waits)` draws the chains; iterating gives each wait."""

    waits: tuple[WaitFor, ...]

    def __iter__(self) -> Iterator[WaitFor]:
        return iter(self.waits)

    def __len__(self) -> int:
        return len(self.waits)

    def of(self, actor: ActorId) -> tuple[WaitFor, ...]:
        """What one actor waits for."""
        return tuple(wait for wait in self.waits if wait.asker == actor)

    def __str__(self) -> str:
        return "\n".join(_draw(self.waits)) if self.waits else "(nobody waits)"


def _called(actor: ActorId, name: str | None) -> str:
    return repr(actor) if name is None else name


def _draw(waits: Sequence[WaitFor]) -> Iterator[str]:
    by_asker: dict[ActorId, list[WaitFor]] = {}
    for wait in waits:
        by_asker.setdefault(wait.asker, []).append(wait)
    awaited = {wait.target for wait in waits}
    # Nobody waits in a circle: every chain has somebody at its head for whom nobody waits.
    heads = [wait for asker, mine in by_asker.items() if asker not in awaited for wait in mine]
    waiting = [(wait, "", "") for wait in reversed(heads)]
    while waiting:
        wait, first, rest = waiting.pop()
        yield f"{first}{wait}"
        following = by_asker.get(wait.target, [])
        last = len(following) - 1
        for place in range(last, -1, -1):
            bend, stem = ("└── ", "    ") if place == last else ("├── ", "│   ")
            waiting.append((following[place], rest + bend, rest + stem))
