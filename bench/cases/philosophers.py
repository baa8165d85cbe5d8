"""Dining philosophers (Savina 12): twenty at a table, ten thousand meals each; one arbitrator gives the forks away.

A philosopher who is hungry says so to the arbitrator. If both his forks lie there he eats, gives them back and tells himself
to begin again; if not he is denied, and asks again at once. So how many messages there are depends on who gets a turn when:
an operation is one *meal*, and how many denials there were stands in the details. A meal is four messages, and two more for
each denial on the way to it. That is what is comparable: how long it takes a system until all have eaten, its way of taking
turns included. Nanoseconds a message it is not.

`limit` is left out: a single queue has another order, and so other denials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from bandstand.actor import Actor, tell
from bench import otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who

PHILOSOPHERS = 20
START, EAT, DENIED = "start", "eat", "denied"
"""What a philosopher is told."""
HUNGRY, DONE, LEAVE = "hungry", "done", "leave"
"""What he tells the arbitrator, with his number and his forks."""


def forks(number: int) -> int:
    """The forks beside a plate: two bits of a number."""
    return 1 << number | 1 << (number + 1) % PHILOSOPHERS


@dataclass
class Books:
    """What everybody has counted by himself."""

    rounds: int
    meals: list[int] = field(default_factory=lambda: [0] * PHILOSOPHERS)
    denials: list[int] = field(default_factory=lambda: [0] * PHILOSOPHERS)
    asked: int = 0
    taken: int = 0
    """Forks that nobody has given back."""

    @property
    def ordered(self) -> int:
        return self.rounds * PHILOSOPHERS

    def eaten(self) -> int:
        """How many meals there were. Each must have had all of his, each wish one answer, and all forks must lie there.

        Raises:
            WrongResultError: it is not so.
        """
        meals, denials = sum(self.meals), sum(self.denials)
        if any(each != self.rounds for each in self.meals):
            raise WrongResultError(
                f"each was to eat {self.rounds} times; they have eaten {min(self.meals)} to {max(self.meals)} times"
            )
        if self.asked != meals + denials:
            raise WrongResultError(
                f"{self.asked} asked for forks; {meals} got them and {denials} were denied"
            )
        if self.taken:
            raise WrongResultError("they have all eaten, and somebody still has a fork")
        return meals

    def details(self) -> Mapping[str, float]:
        return {"denials": float(sum(self.denials))}


def arbitrator(stage: Stage, books: Books, philosophers: list[Who]) -> Handler:
    send, asked, taken, left = stage.send, 0, 0, 0

    def arbitrate(_me: object, message: tuple[str, int, int]) -> None:
        nonlocal asked, taken, left
        kind, number, wanted = message
        if kind == HUNGRY:
            asked += 1
            if taken & wanted:
                send(philosophers[number], DENIED)
            else:
                taken |= wanted
                send(philosophers[number], EAT)
        elif kind == DONE:
            taken ^= wanted
        else:
            left += 1
            if left == PHILOSOPHERS:
                books.asked, books.taken = asked, taken
                stage.finish()

    return arbitrate


def philosopher(stage: Stage, books: Books, number: int, arbiter: Who, philosophers: list[Who]) -> Handler:
    send, end, rounds = stage.send, stage.end, books.rounds
    meals, denials = books.meals, books.denials
    hungry, done, leave = ((kind, number, forks(number)) for kind in (HUNGRY, DONE, LEAVE))

    def live(_me: object, message: str) -> object:
        if message == EAT:
            meals[number] += 1
            send(arbiter, done)
            if meals[number] == rounds:
                send(arbiter, leave)
                return end
            send(philosophers[number], START)
            return None
        if message == DENIED:
            denials[number] += 1
        send(arbiter, hungry)
        return None

    return live


def program(stage: Stage, setting: Setting) -> Play:
    books, philosophers = Books(setting.size // PHILOSOPHERS), list[Who]()
    arbiter = stage.spawn(arbitrator(stage, books, philosophers))
    for number in range(PHILOSOPHERS):
        philosophers.append(stage.spawn(philosopher(stage, books, number, arbiter, philosophers)))

    def begin() -> None:
        for each in philosophers:
            stage.send(each, START)

    return Play(
        begin=begin,
        operations=books.ordered,
        sent=books.ordered,
        handled=books.eaten,
        details=books.details,
    )


class Arbitrator(Actor):
    def __init__(self, books: Books) -> None:
        self.books = books
        self.left = PHILOSOPHERS

    @tell
    def hungry(self, who: Philosopher, wanted: int) -> None:
        books = self.books
        books.asked += 1
        if books.taken & wanted:
            who.denied()
        else:
            books.taken |= wanted
            who.eat()

    @tell
    def done(self, wanted: int) -> None:
        self.books.taken ^= wanted

    @tell
    def leave(self) -> None:
        self.left -= 1


class Philosopher(Actor):
    def __init__(self, books: Books, number: int, arbiter: Arbitrator) -> None:
        self.books = books
        self.number = number
        self.arbiter = arbiter
        self.forks = forks(number)
        self.meals = 0

    def on_start(self) -> None:
        self.own = self.me

    @tell
    def start(self) -> None:
        self.arbiter.hungry(self.own, self.forks)

    @tell
    def denied(self) -> None:
        self.books.denials[self.number] += 1
        self.arbiter.hungry(self.own, self.forks)

    @tell
    def eat(self) -> None:
        self.meals += 1
        self.arbiter.done(self.forks)
        if self.meals < self.books.rounds:
            self.own.start()
            return
        self.books.meals[self.number] = self.meals
        self.arbiter.leave()
        self.stop()


def classes(setting: Setting) -> Outcome:
    books, loop = Books(setting.size // PHILOSOPHERS), typed.make()
    arbiter = loop.spawn(Arbitrator, books)
    guests = [loop.spawn(Philosopher, books, number, arbiter) for number in range(PHILOSOPHERS)]
    elapsed = raw.drain(loop, *(guest.start for guest in guests))
    n = books.ordered
    raw.settle(loop, 4 * n + 2 * sum(books.denials) + PHILOSOPHERS)
    return Outcome(total=elapsed, operations=n, sent=n, handled=books.eaten(), details=books.details())


CASE = Case(
    name="philosophers",
    title="dining philosophers, 20, a meal",
    what="twenty philosophers ask one arbitrator for two forks each, until they get them (Savina 12)",
    size=Size(full=200_000, slow=100_000, quick=400),
    savina=12,
    measures={
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run(
            "philosophers", setting.size // PHILOSOPHERS * PHILOSOPHERS, PHILOSOPHERS
        ),
    },
)
