"""Twenty workers who ask one store: the books that are kept of it, and how it begins and ends. For Savina's dictionary and sorted list."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bandstand.core import Loop
from bench import raw
from bench.case import Outcome
from bench.stage import Play, Stage, Who

WORKERS = 20


class Books:
    """What was handled, as the store and the workers count it."""

    def __init__(self, size: int) -> None:
        self.requests = size // (2 * WORKERS)
        """So many has each worker."""
        self.sent = 2 * WORKERS * self.requests
        """Requests and answers, of all of them."""
        self.served = self.answered = 0
        self.sums: list[int | None] = [None] * WORKERS
        """What each worker was answered, added up; None until it has left."""

    def leave(self, worker: int, answered: int, total: int) -> None:
        """A worker has had all its answers."""
        self.answered += answered
        self.sums[worker] = total

    def handled(self) -> int:
        """How many requests and answers were handled. Who derives from this looks at the sums first."""
        return self.served + self.answered


def gate(stage: Stage, books: Books) -> Who:
    """Make the actor that workers leave by: the last one ends the play."""
    left = WORKERS

    def leave(_me: object, data: tuple[int, int, int]) -> None:
        nonlocal left
        books.leave(*data)
        left -= 1
        if not left:
            stage.finish()

    return stage.spawn(leave)


def play(stage: Stage, books: Books, workers: Sequence[Who]) -> Play:
    """Have all of them begin, by a message that is no answer."""
    send = stage.send

    def begin() -> None:
        for each in workers:
            send(each, 0)

    return Play(begin=begin, operations=books.sent, sent=books.sent, handled=books.handled)


def outcome(loop: Loop, books: Books, begin: Sequence[Callable[[], object]]) -> Outcome:
    """The same of typed actors, each of which begins by one of these."""
    elapsed = raw.drain(loop, *begin)
    raw.settle(loop, WORKERS + books.sent)
    return Outcome(total=elapsed, operations=books.sent, sent=books.sent, handled=books.handled())
