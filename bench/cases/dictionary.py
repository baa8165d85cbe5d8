"""Concurrent dictionary (Savina 9): twenty workers read and write one store. Measures request and reply by messages at one actor.

A worker sends a request, waits for the answer, and sends the next: it reads a key, or, in one request of ten, writes one. Which key,
and whether it is written, is drawn beforehand, the same in every system; drawing is not what is measured. An operation is one
message, request or answer. The store is what each language has for it: a dict, and a map in Erlang.

Every worker has keys of its own, so that each answer is known beforehand whoever comes first: what must come out is the sum of all
answers, for each worker. They are few (Savina has half a million): what is measured is messages, and not the misses of a cache.
`limit` is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TypeAlias

from bandstand.actor import Actor, tell
from bench import otp, stages, typed, workers
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.dice import draws
from bench.stage import Play, Stage, Who
from bench.workers import WORKERS

KEYS = 256
"""So many has each worker."""
VALUES = 9_973
"""What is written is below that."""
WRITES = 10
"""Of a hundred requests."""

Order: TypeAlias = tuple[int, int | None]
"""A key, and what is to be written; None reads it."""


def orders(worker: int, requests: int) -> list[Order]:
    """What a worker asks for, one after the other."""

    def order(number: int) -> Order:
        key = (number // 100 % KEYS) * WORKERS + worker
        return key, (number % VALUES if number % 100 < WRITES else None)

    return [order(number) for number in islice(draws(worker + 1), requests)]


def fresh() -> dict[int, int]:
    """The store before the first request."""
    return {key: key for key in range(KEYS * WORKERS)}


def answers(requests: int) -> list[int]:
    """The sum of what each worker must be answered."""
    store, sums = fresh(), [0] * WORKERS
    for worker in range(WORKERS):
        for key, value in orders(worker, requests):
            if value is not None:
                store[key] = value
            sums[worker] += store[key]
    return sums


class Books(workers.Books):
    """What was handled, and what must have been answered."""

    def handled(self) -> int:
        """How many requests and answers were handled.

        Raises:
            WrongResultError: a worker was answered something else than what was in the store.
        """
        for worker, (found, right) in enumerate(zip(self.sums, answers(self.requests), strict=True)):
            if found != right:
                raise WrongResultError(
                    f"the answers to worker {worker} make {right}, and it has found {found}"
                )
        return super().handled()


def program(stage: Stage, setting: Setting) -> Play:
    books, send, end = Books(setting.size), stage.send, stage.end
    values = fresh()

    def store(_me: object, data: tuple[Who, int, int | None]) -> None:
        who, key, value = data
        books.served += 1
        if value is None:
            value = values[key]
        else:
            values[key] = value
        send(who, value)

    def worker(number: int) -> Who:
        work: Iterator[Order] = iter(orders(number, books.requests))
        # The message that makes it begin is no answer.
        answered, total = -1, 0

        def go_on(_me: object, answer: int) -> object:
            nonlocal answered, total
            answered += 1
            total += answer
            for key, value in work:
                send(shelf, (me, key, value))
                return None
            send(door, (number, answered, total))
            return end

        me = stage.spawn(go_on)
        return me

    shelf, door = stage.spawn(store), workers.gate(stage, books)
    return workers.play(stage, books, [worker(number) for number in range(WORKERS)])


class Store(Actor):
    """Keys and values."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.values = fresh()

    @tell
    def read(self, who: Worker, key: int) -> None:
        self.books.served += 1
        who.answer(self.values[key])

    @tell
    def write(self, who: Worker, key: int, value: int) -> None:
        self.books.served += 1
        self.values[key] = value
        who.answer(value)


class Worker(Actor):
    """Who reads and writes them."""

    def __init__(self, number: int, store: Store, books: Books) -> None:
        self.number = number
        self.store = store
        self.books = books
        self.work = iter(orders(number, books.requests))
        self.answered = self.total = 0

    @tell
    def begin(self) -> None:
        self.go_on()

    @tell
    def answer(self, value: int) -> None:
        self.answered += 1
        self.total += value
        self.go_on()

    def go_on(self) -> None:
        for key, value in self.work:
            if value is None:
                self.store.read(self.me, key)
            else:
                self.store.write(self.me, key, value)
            return
        self.books.leave(self.number, self.answered, self.total)
        self.stop()


def classes(setting: Setting) -> Outcome:
    books = Books(setting.size)
    loop = typed.make()
    store = loop.spawn(Store, books)
    return workers.outcome(
        loop, books, [loop.spawn(Worker, number, store, books).begin for number in range(WORKERS)]
    )


def erlang(setting: Setting) -> Outcome:
    books = Books(setting.size)
    return otp.run(
        "dictionary",
        books.requests,
        WORKERS,
        KEYS,
        VALUES,
        WRITES,
        sum(answers(books.requests)),
        sent=books.sent,
    )


CASE = Case(
    name="dictionary",
    title="concurrent dictionary, 20 workers",
    what="twenty workers read and write one store, by request and reply (Savina 9)",
    size=Size(full=400_000, slow=100_000, quick=2_000),
    measures={"typed": classes, **stages.measures(program), "erlang": erlang},
    savina=9,
)
