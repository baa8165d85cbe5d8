"""Skynet: one actor makes ten, each of those ten more, down to a million leaves; their numbers are summed up on the way back.

1,111,111 actors: the million leaves answer with 0 to 999,999 and end, everybody else adds up ten answers, passes the sum on and
ends. The root's is 499,999,500,000, and nothing else is accepted. All of them live at the same time where the run queue is first in,
first out, so memory counts too. An operation is one actor: made, sent its first message, ended; those that are no leaves
handle ten more.

The tree is a tenth as big on the slow systems. `limit` has no actors, only a function for each that keeps a sum. Not here: Pykka,
whose actors are threads, which no machine has a hundred thousand of; and Thespian and xoscar, whose actors take a hundred times
as long to be made.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from bandstand.actor import Actor, tell
from bandstand.core import LoopConfig
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who
from bench.target import ahead_of

CHILDREN = 10


def leaves_of(setting: Setting) -> int:
    """The biggest whole tree that is within the size."""
    leaves = 1
    while leaves * CHILDREN <= setting.size:
        leaves *= CHILDREN
    return leaves


def actors_of(leaves: int) -> int:
    """How many actors a tree has that has so many leaves."""
    return (leaves * CHILDREN - 1) // (CHILDREN - 1)


def checked(leaves: int, total: int, ended: int) -> int:
    """How many actors have ended, if the sum is right.

    Raises:
        WrongResultError: the root has come to another sum than that of all leaves.
    """
    if total != (right := leaves * (leaves - 1) // 2):
        raise WrongResultError(f"the numbers of {leaves} leaves come to {right}, not to {total}")
    return ended


def plain(setting: Setting) -> Outcome:
    leaves, result, ended = leaves_of(setting), -1, 0
    tasks: limit.Tasks = deque()
    append = tasks.append

    def leaf(_ctx: None, order: tuple[limit.Handler, int, int]) -> None:
        nonlocal ended
        ended += 1
        append((order[0], order[1]))

    def member() -> limit.Handler:
        parent: limit.Handler
        total, left = 0, 0

        def handle(_ctx: None, order: Any) -> None:
            nonlocal parent, total, left, ended
            if left:
                total += order
                left -= 1
                if not left:
                    ended += 1
                    append((parent, total))
                return
            left = CHILDREN
            parent, number, size = order
            share = size // CHILDREN
            for child in range(CHILDREN):
                append((leaf if share == 1 else member(), (handle, number + child * share, share)))

        return handle

    def sink(_ctx: None, total: int) -> None:
        nonlocal result
        result = total

    append((member(), (sink, 0, leaves)))
    elapsed = limit.drain(tasks)
    n = actors_of(leaves)
    return Outcome(total=elapsed, operations=n, sent=n, handled=checked(leaves, result, ended))


def program(stage: Stage, setting: Setting) -> Play:
    leaves, result, ended = leaves_of(setting), -1, 0
    send, spawn, end = stage.send, stage.spawn, stage.end

    def leaf(_me: object, order: tuple[Who, Who, int, int]) -> object:
        nonlocal ended
        ended += 1
        send(order[1], order[2])
        return end

    def member() -> Handler:
        parent: Who = None
        total, left = 0, 0

        def handle(_me: object, order: Any) -> object:
            nonlocal parent, total, left, ended
            if left:
                total += order
                left -= 1
                if left:
                    return None
                ended += 1
                send(parent, total)
                return end
            left = CHILDREN
            myself, parent, number, size = order
            share = size // CHILDREN
            for place in range(CHILDREN):
                child = spawn(leaf if share == 1 else member())
                send(child, (child, myself, number + place * share, share))
            return None

        return handle

    def sink(_me: object, total: int) -> None:
        nonlocal result
        result = total
        stage.finish()

    def begin() -> None:
        root = spawn(member())
        send(root, (root, last, 0, leaves))

    last = spawn(sink)
    n = actors_of(leaves)
    return Play(begin=begin, operations=n, sent=n, handled=lambda: checked(leaves, result, ended))


def classes(setting: Setting) -> Outcome:
    leaves, result = leaves_of(setting), -1
    n = actors_of(leaves)
    loop = typed.make(LoopConfig(max_actors=n + 1))
    spawn = loop.spawn

    class Leaf(Actor):
        @tell
        def begin(self, parent: Member, number: int) -> None:
            parent.add(number)
            self.stop()

    class Member(Actor):
        def __init__(self) -> None:
            self.total, self.left = 0, CHILDREN

        @tell
        def begin(self, parent: Member | Sink, number: int, size: int) -> None:
            self.parent = parent
            share = size // CHILDREN
            for place in range(CHILDREN):
                if share == 1:
                    spawn(Leaf).begin(self.me, number + place)
                else:
                    spawn(Member).begin(self.me, number + place * share, share)

        @tell
        def add(self, total: int) -> None:
            self.total += total
            self.left -= 1
            if not self.left:
                self.parent.add(self.total)
                self.stop()

    class Sink(Actor):
        @tell
        def add(self, total: int) -> None:
            nonlocal result
            result = total

    sink = spawn(Sink)
    elapsed = raw.drain(loop, lambda: spawn(Member).begin(sink, 0, leaves))
    ended = loop.statistics().ended_normal
    raw.settle(loop, 2 * n)
    return Outcome(total=elapsed, operations=n, sent=n, handled=checked(leaves, result, ended))


def with_otp(setting: Setting) -> Outcome:
    leaves = leaves_of(setting)
    return otp.run("skynet", leaves, CHILDREN, sent=actors_of(leaves))


CASE = Case(
    name="skynet",
    title="skynet, a million leaves",
    what="a tree of 1,111,111 actors, ten children each, summed up and ended (111,111 on the slower systems)",
    size=Size(full=1_000_000, slow=100_000, quick=1_000),
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program, "raw", "queues"),
        "erlang": with_otp,
    },
    target=ahead_of("erlang"),
    typed_target=ahead_of("erlang"),
    repeats=1,
    most_rounds=3,
    is_brief=False,
)
