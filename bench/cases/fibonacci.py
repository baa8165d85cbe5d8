"""Fibonacci (Savina 6): a tree of actors, each made by its parent, who waits for two answers. Measures making and ending in a tree.

Who is to find a Fibonacci number beyond the second makes two actors, asks them for the two numbers before it, adds what they
answer, answers, and ends; the first two numbers are 1. For the 25th that is 150,049 actors, 2·F(25) − 1, and since nobody prefers
the youngest, more than half of them live at once. An operation is one life: made, asked, answering, ended; so two messages.

The size is a number of actors, and of it the largest tree that is no larger is played. Pykka, with a thread for each, could not
live through it: it gets a tree of less than two thousand, like Thespian and xoscar, and the tasks with queues one of 13,529. That is
fewer alive at a time, which favours them. In `typed` every actor is an object with a constructor, besides being an actor. `limit` is left out: a tree of function calls is no tree of actors.

What must come out is the number itself, and as many lives as the tree has places.
"""

from __future__ import annotations

from itertools import count, pairwise

from bandstand.actor import Actor, tell
from bandstand.core import LoopConfig
from bench import otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Play, Stage, Who

MAX_ACTORS = 1 << 18
ROOM = 4
"""A request and two answers are all that an actor ever gets."""


def fibonacci(n: int) -> int:
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def actors(n: int) -> int:
    """How many there are in the tree of the n-th number."""
    return 2 * fibonacci(n) - 1


def largest(size: int) -> int:
    """The number whose tree has no more actors than that, or the third: a tree has branches."""
    return next(n for n, after in pairwise(count(3)) if actors(after) > size)


def lived(n: int, lives: int, answer: int) -> int:
    """How many lives there were, if the answer is right.

    Raises:
        WrongResultError: it is not.
    """
    if answer != fibonacci(n):
        raise WrongResultError(f"Fibonacci number {n} is {fibonacci(n)}, and the tree answered {answer}")
    return lives


def program(stage: Stage, setting: Setting) -> Play:
    n, answer, lives = largest(setting.size), 0, count()
    send, end, spawn = stage.send, stage.end, stage.spawn
    # Threads may be counting: this one step no other can divide.
    lived_one = lives.__next__

    class Finder:
        # Not a closure: that would be five objects an actor for the garbage collector to walk through, and this is two.
        __slots__ = ("first", "me", "parent")

        def __init__(self, parent: Who) -> None:
            self.parent = parent
            self.first: int | None = None
            self.me: Who = spawn(self.find, ROOM)

        # First it is sent which number to find, then what its children have found.
        def find(self, _me: object, number: int) -> object:
            if self.first:
                send(self.parent, self.first + number)
            elif self.first is not None:
                self.first = number
                return None
            elif number > 2:
                self.first = 0
                send(Finder(self.me).me, number - 1)
                send(Finder(self.me).me, number - 2)
                return None
            else:
                send(self.parent, 1)
            lived_one()
            return end

    def hear(_me: object, data: int) -> object:
        nonlocal answer
        answer = data
        stage.finish()
        return end

    root = Finder(spawn(hear)).me
    return Play(
        begin=lambda: send(root, n),
        operations=actors(n),
        sent=actors(n),
        handled=lambda: lived(n, lived_one(), answer),
    )


def classes(setting: Setting) -> Outcome:
    n, answer, lives = largest(setting.size), 0, 0
    loop = typed.make(LoopConfig(max_actors=MAX_ACTORS))
    small = loop.options(mailbox=ROOM)

    class Listener(Actor):
        @tell
        def found(self, number: int) -> None:
            nonlocal answer
            answer = number

    class Finder(Actor):
        def __init__(self, parent: Finder | Listener) -> None:
            self.parent = parent
            self.first = 0

        @tell
        def find(self, n: int) -> None:
            if n > 2:
                small.spawn(Finder, self.me).find(n - 1)
                small.spawn(Finder, self.me).find(n - 2)
            else:
                self.answer(1)

        @tell
        def found(self, number: int) -> None:
            if self.first:
                self.answer(self.first + number)
            else:
                self.first = number

        def answer(self, number: int) -> None:
            nonlocal lives
            lives += 1
            self.parent.found(number)
            self.stop()

    root = small.spawn(Finder, loop.spawn(Listener))
    elapsed = raw.drain(loop, lambda: root.find(n))
    if (ended := loop.statistics().ended_normal) != actors(n):
        raise WrongResultError(f"{actors(n)} actors were to end, {ended} did")
    raw.settle(loop, 2 * actors(n))
    return Outcome(total=elapsed, operations=actors(n), sent=actors(n), handled=lived(n, lives, answer))


def erlang(setting: Setting) -> Outcome:
    n = largest(setting.size)
    return otp.run("fibonacci", n, fibonacci(n), sent=actors(n))


CASE = Case(
    name="fibonacci",
    title="fibonacci, a tree of actors",
    what="150,049 actors in a tree, each made by one that waits for its answer (Savina 6)",
    size=Size(full=actors(25), slow=actors(20), quick=actors(11)),
    measures={"typed": classes, **stages.measures(program), "erlang": erlang},
    savina=6,
)
