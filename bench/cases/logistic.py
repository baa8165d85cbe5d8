"""Logistic map series (Savina 15): ten workers ask ten computers for the next term, 25,000 times each. Measures request and answer.

A series is x, r x (1 - x), and so on; r is 3.46 for the first and 0.0025 more for each further one. A master tells every worker,
all at once, to find so many terms and then to say the last. A worker asks the computer that has its rate, and until it has the answer
it takes up nothing else: what comes meanwhile it keeps. Nobody else asks its computer, so no two conversations meet.

What is comparable. Questions and answers are one-way messages in all systems, and what comes meanwhile is kept by hand, in a
deque, because most of them have no stash and no wait for one message; Erlang has, and waits for the answer by its
reference.
The arithmetic is that of the same floats in the same order, so the last terms must be the very same. An operation is one message: three
a term, two for each series' last one, and the one that starts it all. `limit` is left out: it has no actor that could wait.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import cache

from bandstand.actor import Actor, tell
from bench import otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who

SERIES = 10
START, STEP = 3.46, 0.0025
NEXT, LAST = "next", "last"
"""What the master tells a worker; a float is an answer."""


def rate(number: int) -> float:
    return START + number * STEP


def first(number: int) -> float:
    """The first term of a series. It is not 0, from which nothing would ever follow but 0."""
    return (number + 1) * STEP


@cache
def last(number: int, terms: int) -> float:
    """The last term of a series."""
    r, x = rate(number), first(number)
    for _ in range(terms):
        x = r * x * (1 - x)
    return x


@dataclass
class Books:
    """What everybody has counted and found by himself."""

    terms: int
    asked: list[int] = field(default_factory=lambda: [0] * SERIES)
    """What each computer was asked."""
    told: list[int] = field(default_factory=lambda: [0] * SERIES)
    """What each worker was told and answered."""
    found: dict[int, float] = field(default_factory=dict[int, float])
    """The last terms, as the master got them."""
    begun: int = 0

    @property
    def messages(self) -> int:
        return 1 + SERIES * (3 * self.terms + 2)

    def handled(self) -> int:
        """How many messages there were. The last terms must be those of the plain arithmetic.

        Raises:
            WrongResultError: they are not.
        """
        for number in range(SERIES):
            check(number, self.terms, self.found.get(number))
        return self.begun + sum(self.asked) + sum(self.told) + len(self.found)


def check(number: int, terms: int, found: float | None) -> None:
    """Refuse a last term that is not the right one.

    Raises:
        WrongResultError: it is not.
    """
    if found != last(number, terms):
        raise WrongResultError(f"series {number} ends with {found}, not with {last(number, terms)}")


def computer(stage: Stage, books: Books, number: int) -> Handler:
    send, asked, r = stage.send, books.asked, rate(number)

    def compute(_me: object, request: tuple[Who, float]) -> None:
        asked[number] += 1
        asker, x = request
        send(asker, r * x * (1 - x))

    return compute


def worker(stage: Stage, books: Books, number: int, master: Who, workers: list[Who]) -> Handler:
    send, told = stage.send, books.told
    helper = stage.spawn(computer(stage, books, number))
    x, is_waiting, kept = first(number), False, deque[str]()

    def take(order: str) -> None:
        nonlocal is_waiting
        if order == NEXT:
            is_waiting = True
            send(helper, (workers[number], x))
        else:
            send(master, (number, x))

    def work(_me: object, message: str | float) -> None:
        nonlocal x, is_waiting
        told[number] += 1
        if not isinstance(message, str):
            x, is_waiting = message, False
            while kept and not is_waiting:
                take(kept.popleft())
        elif is_waiting:
            kept.append(message)
        else:
            take(message)

    return work


def program(stage: Stage, setting: Setting) -> Play:
    books, send, workers = Books(setting.size), stage.send, list[Who]()

    def direct(_me: object, answer: tuple[int, float] | None) -> None:
        if answer is None:
            books.begun += 1
            for _ in range(books.terms):
                for each in workers:
                    send(each, NEXT)
            for each in workers:
                send(each, LAST)
        else:
            number, books.found[number] = answer
            if len(books.found) == SERIES:
                stage.finish()

    master = stage.spawn(direct)
    for number in range(SERIES):
        handler = worker(stage, books, number, master, workers)
        workers.append(stage.spawn(handler, room=books.terms + 2))
    return Play(
        begin=lambda: send(master, None),
        operations=books.messages,
        sent=books.messages,
        handled=books.handled,
    )


class Master(Actor):
    def __init__(self, books: Books, workers: list[Worker]) -> None:
        self.books = books
        self.workers = workers

    @tell
    def begin(self) -> None:
        self.books.begun += 1
        for _ in range(self.books.terms):
            for worker in self.workers:
                worker.find_next()
        for worker in self.workers:
            worker.say_last()

    @tell
    def found(self, number: int, x: float) -> None:
        self.books.found[number] = x


class Computer(Actor):
    def __init__(self, books: Books, number: int) -> None:
        self.asked = books.asked
        self.number = number
        self.rate = rate(number)

    @tell
    def compute(self, asker: Worker, x: float) -> None:
        self.asked[self.number] += 1
        asker.answer(self.rate * x * (1 - x))


class Worker(Actor):
    def __init__(self, books: Books, number: int, master: Master, computer: Computer) -> None:
        self.told = books.told
        self.number = number
        self.master = master
        self.computer = computer
        self.x = first(number)
        self.is_waiting = False
        self.kept = deque[str]()

    def on_start(self) -> None:
        self.own = self.me

    @tell
    def find_next(self) -> None:
        self.told[self.number] += 1
        if self.is_waiting:
            self.kept.append(NEXT)
        else:
            self.take(NEXT)

    @tell
    def say_last(self) -> None:
        self.told[self.number] += 1
        if self.is_waiting:
            self.kept.append(LAST)
        else:
            self.take(LAST)

    @tell
    def answer(self, x: float) -> None:
        self.told[self.number] += 1
        self.x, self.is_waiting = x, False
        while self.kept and not self.is_waiting:
            self.take(self.kept.popleft())

    def take(self, order: str) -> None:
        if order == NEXT:
            self.is_waiting = True
            self.computer.compute(self.own, self.x)
        else:
            self.master.found(self.number, self.x)


def classes(setting: Setting) -> Outcome:
    books, loop, workers = Books(setting.size), typed.make(), list[Worker]()
    master = loop.spawn(Master, books, workers)
    roomy = loop.options(mailbox=books.terms + 4)
    for number in range(SERIES):
        workers.append(roomy.spawn(Worker, books, number, master, loop.spawn(Computer, books, number)))
    elapsed = raw.drain(loop, master.begin)
    n = books.messages
    raw.settle(loop, n)
    return Outcome(total=elapsed, operations=n, sent=n, handled=books.handled())


def with_otp(setting: Setting) -> Outcome:
    terms = setting.size
    outcome = otp.run("logistic", terms, SERIES, sent=Books(terms).messages)
    for number in range(SERIES):
        check(number, terms, outcome.details[f"series{number}"])
    return outcome


CASE = Case(
    name="logistic-map",
    title="logistic map series, 10",
    what="ten actors ask ten others for the next term, each waiting for its answer (Savina 15)",
    size=Size(full=25_000, slow=10_000, quick=100),
    savina=15,
    measures={
        "typed": classes,
        **stages.measures(program),
        "erlang": with_otp,
    },
)
