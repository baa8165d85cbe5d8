"""Fork-join throughput (Savina 4): one actor deals messages out to sixty, in turn. Measures one to many.

Ten for each at a time; when the last worker has its tenth, it tells the dealer to go on. So at most six hundred messages
wait in every system and the garbage collector has no long queue to walk through (see `counting`); Savina deals all in one
go. Savina's workers compute a sine each; ours only count, so that the runtime is what is measured. An operation is one
message to a worker. In the end each worker is asked once whether it is done, which is one message in ten thousand.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bandstand.actor import Actor, tell
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Handler, Play, Stage
from bench.target import ahead_of

WORKERS = 60
BURST = 10
DONE = -1


def plain(setting: Setting) -> Outcome:
    bursts, total = setting.size // (WORKERS * BURST), 0
    n = bursts * WORKERS * BURST
    tasks: limit.Tasks = deque()
    append = tasks.append

    def worker() -> limit.Handler:
        def work(_ctx: None, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                append((deal, last_of - 1))

        return work

    *workers, last = [worker() for _ in range(WORKERS)]

    def deal(_ctx: None, burst: int) -> None:
        if burst:
            for left in reversed(range(BURST)):
                for work in workers:
                    append((work, 0))
                append((last, 0 if left else burst))

    append((deal, bursts))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def closing(stage: Stage) -> Handler:
    """Finish when every worker has said that it is done."""
    waiting = WORKERS

    def close(_me: object, _done: int) -> None:
        nonlocal waiting
        waiting -= 1
        if not waiting:
            stage.finish()

    return close


def program(stage: Stage, setting: Setting) -> Play:
    bursts = setting.size // (WORKERS * BURST)
    n = bursts * WORKERS * BURST
    send = stage.send
    # Each counts for itself: some have a thread each.
    totals: list[Callable[[], int]] = []

    def worker() -> Handler:
        total = 0

        def work(_me: object, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                send(*((dealer, last_of - 1) if last_of > 0 else (closer, DONE)))

        totals.append(lambda: total)
        return work

    def deal(_me: object, burst: int) -> None:
        if burst:
            for rest in reversed(range(BURST)):
                for each in workers:
                    send(each, 0)
                send(last, 0 if rest else burst)
        else:
            for each in (*workers, last):
                send(each, DONE)

    dealer, closer = stage.spawn(deal), stage.spawn(closing(stage))
    *workers, last = [stage.spawn(worker()) for _ in range(WORKERS)]
    return Play(
        begin=lambda: send(dealer, bursts),
        operations=n,
        sent=n,
        handled=lambda: sum(total() for total in totals) - WORKERS,
    )


def classes(setting: Setting) -> Outcome:
    bursts, total = setting.size // (WORKERS * BURST), 0
    n = bursts * WORKERS * BURST
    loop = typed.make()

    class Worker(Actor):
        @tell
        def work(self, last_of: int) -> None:
            nonlocal total
            total += 1
            if last_of:
                dealer.deal(last_of - 1)

    class Dealer(Actor):
        @tell
        def deal(self, burst: int) -> None:
            if burst:
                for rest in reversed(range(BURST)):
                    for worker in workers:
                        worker.work(0)
                    last.work(0 if rest else burst)

    *workers, last = [loop.spawn(Worker) for _ in range(WORKERS)]
    dealer = loop.spawn(Dealer)
    elapsed = raw.drain(loop, lambda: dealer.deal(bursts))
    raw.settle(loop, n + bursts + 1)
    return Outcome(total=elapsed, operations=n, sent=n, handled=total)


def with_otp(setting: Setting) -> Outcome:
    return otp.run("forkjoin", setting.size // (WORKERS * BURST) * WORKERS * BURST, WORKERS, BURST)


CASE = Case(
    name="fork-join",
    title="fork-join throughput, 60 actors",
    what="one actor deals messages out to sixty, ten for each at a time (Savina 4)",
    size=Size(full=600_000, slow=300_000, quick=1_200),
    savina=4,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": with_otp,
    },
    target=ahead_of("erlang"),
)
