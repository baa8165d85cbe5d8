"""Fork-join create (Savina 5): make an actor, send it one message, have it end; forty thousand times.

Five hundred live at a time; the last of them tells the maker to go on. (Savina makes all forty thousand in one go, which
measures the garbage collector's walks through them more than anything else.) An operation is one whole life.

`limit` is the least a life can be in Python: a handler and a deque of its own, kept in a dict under a number, visited
through the same run queue as ever, and deleted. The asyncio peer is a task with a Queue, ended by returning.
Slow systems make fewer: the slowest eight thousand, in the same bursts.
"""

from __future__ import annotations

from collections import deque

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Play, Stage
from bench.target import ahead_of

BURST = 500


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append
    actors: dict[int, tuple[limit.Handler, deque[int]]] = {}

    def create(_ctx: None, burst: int) -> None:
        if burst:
            for number in range(BURST):
                mailbox = deque[int]()
                actors[number] = live, mailbox
                mailbox.append(0 if number < BURST - 1 else burst)
                append((visit, number))

    def visit(_ctx: None, number: int) -> None:
        handler, mailbox = actors[number]
        handler(None, mailbox.popleft())
        del actors[number]

    def live(_ctx: None, last_of: int) -> None:
        nonlocal total
        total += 1
        if last_of:
            append((create, last_of - 1))

    append((create, bursts))
    elapsed = limit.drain(tasks)
    if actors:
        raise WrongResultError(f"{len(actors)} actors did not end")
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def program(stage: Stage, setting: Setting) -> Play:
    bursts, lived = setting.size // BURST, list[int]()
    n = bursts * BURST
    send, spawn, end, append = stage.send, stage.spawn, stage.end, lived.append

    def create(_me: object, burst: int) -> None:
        if burst:
            for number in range(BURST):
                send(spawn(live), 0 if number < BURST - 1 else burst)
        else:
            stage.finish()

    def live(_me: object, last_of: int) -> object:
        # Many threads: an append is safe, a sum would not be.
        append(last_of)
        if last_of:
            send(maker, last_of - 1)
        return end

    maker = spawn(create)
    return Play(begin=lambda: send(maker, bursts), operations=n, sent=n, handled=lambda: len(lived), ends=n)


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // BURST, 0
    n = bursts * BURST
    loop = typed.make()
    spawn = loop.spawn

    class Maker(Actor):
        @tell
        def create(self, burst: int) -> None:
            if burst:
                for number in range(BURST):
                    spawn(Mayfly).live(0 if number < BURST - 1 else burst)

    class Mayfly(Actor):
        @tell
        def live(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                maker.create(last_of - 1)
            self.stop()

    maker = spawn(Maker)
    elapsed = raw.drain(loop, lambda: maker.create(bursts))
    if loop.statistics().ended_normal != n:
        raise WrongResultError(f"{n} actors were to end, {loop.statistics().ended_normal} did")
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


CASE = Case(
    name="fork-join-create",
    title="create + message + stop",
    what="make an actor, send it a message, have it end; 500 living at a time (Savina 5)",
    size=Size(full=40_000, slow=40_000, quick=500),
    savina=5,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("create", setting.size // BURST * BURST, BURST),
    },
    target=ahead_of("erlang"),
    typed_target=ahead_of("erlang"),
    repeats=5,
)
