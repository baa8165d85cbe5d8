"""The people of the sleeping barber's shop as typed actors, and the books that any shop keeps; `cases.barber` says what they do."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from bandstand.actor import Actor, ActorSystem, tell
from bench import dice
from bench.case import WrongResultError

CUSTOMERS_A_CHAIR = 5
SEED = 13
STEPS = 4


def times(n: int) -> tuple[list[int], list[int]]:
    """How many steps it takes to make each customer, and to cut the hair of each."""
    draws = dice.draws(SEED)
    steps = [1 + next(draws) % STEPS for _ in range(2 * n)]
    return steps[::2], steps[1::2]


@dataclass
class Books:
    """What everybody has counted by himself."""

    customers: int
    told: list[int] = field(init=False)
    """What each customer was told."""
    cut: list[int] = field(init=False)
    """How often each had his hair cut."""
    factory: int = 0
    room: int = 0
    barber: int = 0
    """What the three were told."""
    returned: int = 0
    slept: int = 0

    def __post_init__(self) -> None:
        self.told, self.cut = [0] * self.customers, [0] * self.customers

    @property
    def chairs(self) -> int:
        return self.customers // CUSTOMERS_A_CHAIR

    @property
    def messages(self) -> int:
        return 8 * self.customers + self.slept + 3 * self.returned + 2

    def haircuts(self) -> int:
        """How many haircuts there were. Everybody must have had one, and no message be lost.

        Raises:
            WrongResultError: it is not so.
        """
        if wrong := sum(each != 1 for each in self.cut):
            raise WrongResultError(f"{wrong} of {self.customers} customers had no haircut, or more than one")
        handled = sum(self.told) + self.factory + self.room + self.barber
        if handled != self.messages:
            raise WrongResultError(f"{self.messages} messages were sent and {handled} handled")
        return sum(self.cut)

    def details(self) -> Mapping[str, float]:
        return {"turned_away": float(self.returned), "slept": float(self.slept)}


class Factory(Actor):
    def __init__(self, loop: ActorSystem, books: Books, room: Room) -> None:
        self.loop = loop
        self.books = books
        self.room = room
        self.steps = times(books.customers)[0]
        self.made = self.inside = self.finished_so_far = 0
        self.outside = deque[Customer]()

    def on_start(self) -> None:
        self.own = self.me

    @tell
    def make(self) -> None:
        self.books.factory += 1
        number = self.made
        self.made += 1
        self.send_in(self.loop.spawn(Customer, self.books, number, self.own))
        dice.work(self.steps[number])
        if self.made < self.books.customers:
            self.own.make()

    @tell
    def returned(self, who: Customer) -> None:
        self.books.factory += 1
        self.books.returned += 1
        self.inside -= 1
        # Who comes back when the last has gone must not wait for another.
        if self.inside:
            self.outside.append(who)
        else:
            self.send_in(who)

    @tell
    def finished(self) -> None:
        self.books.factory += 1
        self.inside -= 1
        self.finished_so_far += 1
        if self.outside:
            self.send_in(self.outside.popleft())
        if self.finished_so_far == self.books.customers:
            self.room.close()

    def send_in(self, who: Customer) -> None:
        self.inside += 1
        self.room.enter(who)


class Room(Actor):
    def __init__(self, books: Books, barber: Barber) -> None:
        self.books = books
        self.barber = barber
        self.chairs = books.chairs
        self.waiting = deque[Customer]()
        self.is_asleep = True
        self.is_closed = False

    def on_start(self) -> None:
        self.own = self.me

    @tell
    def enter(self, who: Customer) -> None:
        self.books.room += 1
        if len(self.waiting) == self.chairs:
            who.full()
            return
        self.waiting.append(who)
        if self.is_asleep:
            self.is_asleep = False
            self.own.next()
        else:
            who.wait()

    @tell
    def next(self) -> None:
        self.books.room += 1
        if self.waiting:
            self.barber.cut(self.waiting.popleft(), self.own)
            return
        self.is_asleep = True
        self.barber.sleep()
        if self.is_closed:
            self.barber.go_home()

    @tell
    def close(self) -> None:
        self.books.room += 1
        self.is_closed = True
        if self.is_asleep:
            self.barber.go_home()


class Barber(Actor):
    def __init__(self, books: Books) -> None:
        self.books = books
        self.steps = iter(times(books.customers)[1])

    @tell
    def cut(self, who: Customer, room: Room) -> None:
        self.books.barber += 1
        who.begin()
        dice.work(next(self.steps))
        who.done()
        room.next()

    @tell
    def sleep(self) -> None:
        self.books.barber += 1
        self.books.slept += 1

    @tell
    def go_home(self) -> None:
        self.books.barber += 1


class Customer(Actor):
    def __init__(self, books: Books, number: int, factory: Factory) -> None:
        self.books = books
        self.number = number
        self.factory = factory

    @tell
    def wait(self) -> None:
        self.books.told[self.number] += 1

    @tell
    def begin(self) -> None:
        self.books.told[self.number] += 1

    @tell
    def full(self) -> None:
        self.books.told[self.number] += 1
        self.factory.returned(self.me)

    @tell
    def done(self) -> None:
        self.books.told[self.number] += 1
        self.books.cut[self.number] += 1
        self.factory.finished()
        self.stop()
