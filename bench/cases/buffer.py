"""Bounded buffer (Savina 11): forty producers and forty consumers around one manager. Measures flow control by messages.

A producer that is told to makes an item and sends it; the manager gives it to a consumer that is free, or keeps it. Once ten are kept the
producer has to wait: the forty may each have one under way, and there is room for fifty. Whenever a consumer takes one of those, a
producer is told to go on. An operation is one message, and an item takes four: to its producer, to the manager, to a consumer, and
that this one is free again.

Making and consuming an item costs 25 steps of arithmetic each, so twelve and a half are in each figure. (Savina's steps are a
hundred logarithms each.) They are equal in all systems of Python, and more than its messages cost in bandstand; in Erlang they are
machine code, which is much of what the row shows of it. What must come out: every item consumed, none twice, and no more than
fifty kept at any time. `limit` is left out.
"""

from __future__ import annotations

from collections import deque

from bandstand.actor import Actor, tell
from bench import otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.dice import work
from bench.stage import Play, Stage, Who

PRODUCERS = CONSUMERS = 40
ROOM = 50
COST = 25


class Books:
    """What was handled, as each counts it by itself: they may be threads."""

    def __init__(self, size: int) -> None:
        self.each = size // (4 * PRODUCERS)
        self.items = self.each * PRODUCERS
        # Each producer is told once more than it can make, and says so.
        self.sent = 4 * self.items + 2 * PRODUCERS
        self.managed = self.most = 0
        self.told = [0] * PRODUCERS
        self.consumed: list[list[int]] = [[] for _ in range(CONSUMERS)]

    def handled(self) -> int:
        """How many messages were handled.

        Raises:
            WrongResultError: an item was lost or consumed twice, or more were kept than there is room for.
        """
        items = sorted(item for consumed in self.consumed for item in consumed)
        if items != list(range(self.items)):
            raise WrongResultError(
                f"{self.items} items were to be consumed once; {len(items)} were, {len(set(items))} of them different"
            )
        if self.most > ROOM:
            raise WrongResultError(f"there is room for {ROOM} items, and {self.most} were kept")
        return self.managed + sum(self.told) + len(items)


def program(stage: Stage, setting: Setting) -> Play:
    books = Books(setting.size)
    desk = Desk(stage, books)
    manager = stage.spawn(desk.handle)
    producers = [produce(stage, manager, number, books) for number in range(PRODUCERS)]
    desk.free += [consume(stage, manager, number, books) for number in range(CONSUMERS)]

    def begin() -> None:
        for each in producers:
            stage.send(each, None)

    return Play(begin=begin, operations=books.sent, sent=books.sent, handled=books.handled)


class Desk:
    """The manager. It gets a producer and its item, a consumer and None, or, from a producer that has no more, None twice."""

    __slots__ = ("books", "free", "kept", "left", "send", "stage", "waiting")

    def __init__(self, stage: Stage, books: Books) -> None:
        self.stage, self.send, self.books = stage, stage.send, books
        self.left = PRODUCERS
        self.kept, self.waiting, self.free = deque[int](), deque[Who](), deque[Who]()

    def handle(self, _me: object, data: tuple[Who, int | None]) -> None:
        who, item = data
        self.books.managed += 1
        if item is not None:
            self.take(who, item)
        elif who is not None:
            self.give(who)
        else:
            self.left -= 1
            self.close()

    def take(self, who: Who, item: int) -> None:
        if self.free:
            self.send(self.free.popleft(), item)
        else:
            self.kept.append(item)
            self.books.most = max(self.books.most, len(self.kept))
        if len(self.kept) < ROOM - PRODUCERS:
            self.send(who, None)
        else:
            self.waiting.append(who)

    def give(self, who: Who) -> None:
        if self.kept:
            self.send(who, self.kept.popleft())
            if self.waiting:
                self.send(self.waiting.popleft(), None)
        else:
            self.free.append(who)
            self.close()

    def close(self) -> None:
        if not self.left and len(self.free) == CONSUMERS:
            for each in self.free:
                self.send(each, None)
            self.stage.finish()


def produce(stage: Stage, manager: Who, number: int, books: Books) -> Who:
    """Make a producer. Whatever it is sent tells it to produce."""
    send, end, told = stage.send, stage.end, books.told
    items = iter(range(number * books.each, (number + 1) * books.each))

    def make(_me: object, _data: None) -> object:
        told[number] += 1
        for item in items:
            send(manager, (me, item + work(COST)))
            return None
        send(manager, (None, None))
        return end

    me = stage.spawn(make)
    return me


def consume(stage: Stage, manager: Who, number: int, books: Books) -> Who:
    """Make a consumer. It gets items, and None in the end."""
    send, end, consumed = stage.send, stage.end, books.consumed[number]

    def use(_me: object, item: int | None) -> object:
        if item is None:
            return end
        consumed.append(item - work(COST))
        send(manager, (me, None))
        return None

    me = stage.spawn(use)
    return me


class Manager(Actor):
    """Who has the buffer."""

    def __init__(self, books: Books) -> None:
        self.books = books
        self.left = PRODUCERS
        self.kept = deque[int]()
        self.waiting = deque[Producer]()
        self.free = deque[Consumer]()

    @tell
    def open(self, consumers: list[Consumer]) -> None:
        self.free += consumers

    @tell
    def take(self, who: Producer, item: int) -> None:
        self.books.managed += 1
        if self.free:
            self.free.popleft().consume(item)
        else:
            self.kept.append(item)
            self.books.most = max(self.books.most, len(self.kept))
        if len(self.kept) < ROOM - PRODUCERS:
            who.produce()
        else:
            self.waiting.append(who)

    @tell
    def give(self, who: Consumer) -> None:
        self.books.managed += 1
        if self.kept:
            who.consume(self.kept.popleft())
            if self.waiting:
                self.waiting.popleft().produce()
        else:
            self.free.append(who)
            self.close()

    @tell
    def leave(self) -> None:
        self.books.managed += 1
        self.left -= 1
        self.close()

    def close(self) -> None:
        if not self.left and len(self.free) == CONSUMERS:
            for consumer in self.free:
                consumer.stop()
            self.stop()


class Producer(Actor):
    """Who makes items."""

    def __init__(self, manager: Manager, number: int, books: Books) -> None:
        self.manager = manager
        self.number = number
        self.told = books.told
        self.items = iter(range(number * books.each, (number + 1) * books.each))

    @tell
    def produce(self) -> None:
        self.told[self.number] += 1
        for item in self.items:
            self.manager.take(self.me, item + work(COST))
            return
        self.manager.leave()
        self.stop()


class Consumer(Actor):
    """Who uses them."""

    def __init__(self, manager: Manager, consumed: list[int]) -> None:
        self.manager = manager
        self.consumed = consumed

    @tell
    def consume(self, item: int) -> None:
        self.consumed.append(item - work(COST))
        self.manager.give(self.me)


def classes(setting: Setting) -> Outcome:
    books = Books(setting.size)
    loop = typed.make()
    manager = loop.spawn(Manager, books)
    consumers = [loop.spawn(Consumer, manager, consumed) for consumed in books.consumed]
    producers = [loop.spawn(Producer, manager, number, books) for number in range(PRODUCERS)]
    elapsed = raw.drain(loop, lambda: manager.open(consumers), *(producer.produce for producer in producers))
    everybody = 1 + PRODUCERS + CONSUMERS
    if (ended := loop.statistics().ended_normal) != everybody:
        raise WrongResultError(f"{everybody} actors were to end, {ended} did")
    raw.settle(loop, 1 + books.sent)
    return Outcome(total=elapsed, operations=books.sent, sent=books.sent, handled=books.handled())


def erlang(setting: Setting) -> Outcome:
    books = Books(setting.size)
    return otp.run("buffer", books.each, PRODUCERS, CONSUMERS, ROOM, COST, sent=books.sent)


CASE = Case(
    name="buffer",
    title="bounded buffer, 40 to 40",
    what="forty producers and forty consumers around one buffer of fifty (Savina 11)",
    size=Size(full=160_000, slow=80_000, quick=1_600),
    measures={"typed": classes, **stages.measures(program), "erlang": erlang},
    savina=11,
)
