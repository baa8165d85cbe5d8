"""Concurrent sorted list (Savina 10): twenty workers ask for what is in one linked list. Measures request and reply at a slow store.

A worker sends a request, waits for the answer, and sends the next: whether a value is in the list, or, in ten requests of a hundred,
a change, or, in one, how long the list is. Every request walks through the list, which has a hundred values at most and about fifty
at a time, so through some twenty-five of them; a change takes a value out if it is there and else puts it in. (Savina only puts in, and
walks through thousands in the end: that measures walking.) Requests are drawn beforehand, the same in every system.
An operation is one message, request or answer, so half a walk is in each figure.

What is comparable: messages and walks are equal in all systems of Python, but for lengths, which depend on who comes first.
Erlang's list is its own, which is copied up to where it changes, and its walk is machine code, which is much of what the row shows
of it. Every worker has values of its own, so what must come out is known: the sum of each worker's answers, lengths excepted, and
what is in the list in the end. `limit` is left out.
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

VALUES = 5
"""So many has each worker."""
SIZES, WRITES = 1, 10
"""Of a hundred requests."""
SIZE, WRITE, CONTAINS = range(3)

Order: TypeAlias = tuple[int, int]
"""What to do, and with which value."""


class Node:
    """A value, and what comes after it."""

    __slots__ = ("after", "value")

    def __init__(self, value: int, after: Node | None) -> None:
        self.value = value
        self.after = after


class SortedList:
    """Values in their order, each once. In the beginning every second one is there."""

    def __init__(self) -> None:
        self.head = Node(-1, None)
        for value in range(0, VALUES * WORKERS, 2):
            self.change(value)

    def change(self, value: int) -> int:
        """Take a value out if it is there, put it in if not; 1 if it is there now, else 0."""
        before, node = self.head, self.head.after
        while node is not None and node.value < value:
            before, node = node, node.after
        if node is not None and node.value == value:
            before.after = node.after
            return 0
        before.after = Node(value, node)
        return 1

    def contains(self, value: int) -> int:
        node = self.head.after
        while node is not None and node.value < value:
            node = node.after
        return 1 if node is not None and node.value == value else 0

    def values(self) -> Iterator[int]:
        node = self.head.after
        while node is not None:
            yield node.value
            node = node.after

    def size(self) -> int:
        size, node = 0, self.head.after
        while node is not None:
            size, node = size + 1, node.after
        return size


def orders(worker: int, requests: int) -> list[Order]:
    """What a worker asks for, one after the other."""

    def order(number: int) -> Order:
        percent = number % 100
        kind = SIZE if percent < SIZES else WRITE if percent < SIZES + WRITES else CONTAINS
        return kind, (number // 100 % VALUES) * WORKERS + worker

    return [order(number) for number in islice(draws(worker + 1), requests)]


def answers(requests: int) -> tuple[list[int], set[int]]:
    """The sum of what each worker must be answered, and what must be in the list in the end."""
    inside, sums = set(range(0, VALUES * WORKERS, 2)), [0] * WORKERS
    for worker in range(WORKERS):
        for kind, value in orders(worker, requests):
            if kind == WRITE:
                inside ^= {value}
            if kind != SIZE:
                sums[worker] += value in inside
    return sums, inside


class Books(workers.Books):
    """What was handled, and what must have been answered, and be in the list in the end."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.store = SortedList()

    def handled(self) -> int:
        """How many requests and answers were handled.

        Raises:
            WrongResultError: a worker was answered something else than what was in the list, or that is not what it should be.
        """
        sums, inside = answers(self.requests)
        if self.sums != sums:
            raise WrongResultError(f"the workers' answers make {sums}, and they have found {self.sums}")
        if (values := list(self.store.values())) != sorted(inside):
            raise WrongResultError(f"the list has {len(inside)} values in the end, and these are {values}")
        return super().handled()


def program(stage: Stage, setting: Setting) -> Play:
    books = Books(setting.size)
    send, values = stage.send, books.store

    def serve(_me: object, data: tuple[Who, int, int]) -> None:
        who, kind, value = data
        books.served += 1
        if kind == CONTAINS:
            send(who, values.contains(value))
        elif kind == WRITE:
            send(who, values.change(value))
        else:
            send(who, values.size())

    store, door = stage.spawn(serve), workers.gate(stage, books)
    return workers.play(
        stage, books, [worker(stage, store, door, number, books.requests) for number in range(WORKERS)]
    )


def worker(stage: Stage, store: Who, door: Who, number: int, requests: int) -> Who:
    """Make a worker. The message that makes it begin is like the answer to a size: it does not count."""
    send, end = stage.send, stage.end
    work = iter(orders(number, requests))
    answered, total, kind = -1, 0, SIZE

    def go_on(_me: object, answer: int) -> object:
        nonlocal answered, total, kind
        answered += 1
        if kind != SIZE:
            total += answer
        for kind, value in work:  # the answer will want to know
            send(store, (me, kind, value))
            return None
        send(door, (number, answered, total))
        return end

    me = stage.spawn(go_on)
    return me


class Store(Actor):
    """The list."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.values = books.store

    @tell
    def contains(self, who: Worker, value: int) -> None:
        self.books.served += 1
        who.answer(self.values.contains(value))

    @tell
    def change(self, who: Worker, value: int) -> None:
        self.books.served += 1
        who.answer(self.values.change(value))

    @tell
    def size(self, who: Worker) -> None:
        self.books.served += 1
        who.size(self.values.size())


class Worker(Actor):
    """Who asks."""

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
    def answer(self, answer: int) -> None:
        self.answered += 1
        self.total += answer
        self.go_on()

    @tell
    def size(self, _size: int) -> None:
        self.answered += 1
        self.go_on()

    def go_on(self) -> None:
        for kind, value in self.work:
            if kind == CONTAINS:
                self.store.contains(self.me, value)
            elif kind == WRITE:
                self.store.change(self.me, value)
            else:
                self.store.size(self.me)
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
    requests = setting.size // (2 * WORKERS)
    sums, inside = answers(requests)
    return otp.run(
        *("sortedlist", requests, WORKERS, VALUES, SIZES, WRITES, sum(sums), sum(inside)),
        sent=2 * WORKERS * requests,
    )


CASE = Case(
    name="sorted-list",
    title="concurrent sorted list, 20 workers",
    what="twenty workers ask one linked list what is in it, and change it (Savina 10)",
    size=Size(full=320_000, slow=80_000, quick=2_000),
    measures={"typed": classes, **stages.measures(program), "erlang": erlang},
    savina=10,
)
