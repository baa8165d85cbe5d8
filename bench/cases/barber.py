"""Sleeping barber (Savina 13): five thousand customers, one barber, and a waiting room with a thousand chairs.

A factory makes a customer, sends him to the waiting room, and tells itself to make the next. The room keeps him, or turns him away
if every chair is taken; if the barber sleeps, it wakes him. The barber tells a customer when he begins and when he is done, and then
the room to send the next. Who was turned away goes back to the factory, which sends him again when another's hair is cut. (In
Savina he returns at once, and again as long as the room is full: where one thread does everything, a system would be measured
by how often it does that for nothing.) To make a customer, and to cut his hair, is one to four steps of a seeded generator; Savina
takes up to a thousand. At other sizes, too, there is one chair for five customers.

How many are turned away depends on who gets a turn when. So an operation is one *haircut*, with the whole life of a customer: eight
messages, one more for each time the barber goes to sleep, three for each time somebody is turned away. Both counts stand in
the details. `limit` is left out: it has no lives, and a single queue has another order.
"""

from __future__ import annotations

from collections import deque

from bench import dice, otp, raw, stages, typed
from bench.barbers import CUSTOMERS_A_CHAIR, SEED, STEPS, Barber, Books, Factory, Room, times
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Handler, Play, Stage, Who

MAKE, RETURNED, FINISHED = "make", "returned", "finished"
"""What the factory is told, with the customer; by the customers, and by itself."""
ENTER, NEXT, CLOSE = "enter", "next", "close"
"""What the room is told, with the customer."""
CUT, SLEEP, HOME = "cut", "sleep", "home"
"""What the barber is told, with the customer."""
WAIT, FULL, BEGIN, DONE = "wait", "full", "begin", "done"
"""What a customer is told."""


class Shop:
    """Who is who."""

    room: Who
    barber: Who
    factory: Who

    def __init__(self, stage: Stage, books: Books) -> None:
        self.stage = stage
        self.books = books
        self.customers: list[Who] = []


def factory(shop: Shop) -> Handler:
    send, spawn, books, room = shop.stage.send, shop.stage.spawn, shop.books, shop.room
    customers, steps = shop.customers, times(books.customers)[0]
    inside, finished, outside = 0, 0, deque[Who]()

    def make() -> None:
        number = len(customers)
        customers.append(spawn(customer(shop, number)))
        send(room, (ENTER, customers[number]))
        dice.work(steps[number])
        if number + 1 < books.customers:
            send(shop.factory, (MAKE, None))

    def handle(_me: object, message: tuple[str, Who]) -> None:
        nonlocal inside, finished
        books.factory += 1
        kind, who = message
        if kind == MAKE:
            inside += 1
            make()
            return
        inside -= 1
        if kind == RETURNED:
            books.returned += 1
            outside.append(who)
        else:
            finished += 1
        # Who comes back when the last has gone must not wait for another.
        if outside and (kind == FINISHED or not inside):
            inside += 1
            send(room, (ENTER, outside.popleft()))
        if finished == books.customers:
            send(room, (CLOSE, None))

    return handle


def room(shop: Shop) -> Handler:
    send, books, chairs, barber = shop.stage.send, shop.books, shop.books.chairs, shop.barber
    waiting, is_asleep, is_closed = deque[Who](), True, False

    def enter(who: Who) -> None:
        nonlocal is_asleep
        if len(waiting) == chairs:
            send(who, FULL)
            return
        waiting.append(who)
        if is_asleep:
            is_asleep = False
            send(shop.room, (NEXT, None))
        else:
            send(who, WAIT)

    def handle(_me: object, message: tuple[str, Who]) -> None:
        nonlocal is_asleep, is_closed
        books.room += 1
        kind, who = message
        if kind == ENTER:
            enter(who)
            return
        if kind == CLOSE:
            is_closed = True
        elif waiting:
            send(barber, (CUT, waiting.popleft()))
        else:
            is_asleep = True
            send(barber, (SLEEP, None))
        if is_closed and is_asleep:
            send(barber, (HOME, None))

    return handle


def barber(shop: Shop) -> Handler:
    send, books, steps = shop.stage.send, shop.books, iter(times(shop.books.customers)[1])

    def handle(_me: object, message: tuple[str, Who]) -> None:
        books.barber += 1
        kind, who = message
        if kind == CUT:
            send(who, BEGIN)
            dice.work(next(steps))
            send(who, DONE)
            send(shop.room, (NEXT, None))
        elif kind == SLEEP:
            books.slept += 1
        else:
            shop.stage.finish()

    return handle


def customer(shop: Shop, number: int) -> Handler:
    send, end, told = shop.stage.send, shop.stage.end, shop.books.told

    def handle(_me: object, message: str) -> object:
        told[number] += 1
        if message == DONE:
            shop.books.cut[number] += 1
            send(shop.factory, (FINISHED, None))
            return end
        if message == FULL:
            send(shop.factory, (RETURNED, shop.customers[number]))
        return None

    return handle


def program(stage: Stage, setting: Setting) -> Play:
    books = Books(setting.size)
    shop = Shop(stage, books)
    shop.barber = stage.spawn(barber(shop))
    shop.room = stage.spawn(room(shop), room=books.customers + 8)
    shop.factory = stage.spawn(factory(shop), room=books.customers + 8)
    return Play(
        begin=lambda: stage.send(shop.factory, (MAKE, None)),
        operations=books.customers,
        sent=books.customers,
        handled=books.haircuts,
        details=books.details,
    )


def classes(setting: Setting) -> Outcome:
    books, loop = Books(setting.size), typed.make()
    roomy = loop.options(mailbox=books.customers)
    room = roomy.spawn(Room, books, loop.spawn(Barber, books))
    factory = roomy.spawn(Factory, loop, books, room)
    elapsed = raw.drain(loop, factory.make)
    n = books.customers
    raw.settle(loop, books.messages)
    return Outcome(total=elapsed, operations=n, sent=n, handled=books.haircuts(), details=books.details())


CASE = Case(
    name="barber",
    title="sleeping barber, a haircut",
    what="customers who wait in a bounded room for one barber, each an actor of its own (Savina 13)",
    size=Size(full=5_000, slow=5_000, quick=100),
    savina=13,
    measures={
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("barber", setting.size, CUSTOMERS_A_CHAIR, SEED, STEPS),
    },
)
