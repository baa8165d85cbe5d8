"""`bandstand bench`: how many requests a second a running node answers, and how soon.

It measures the node, the socket and this client together: what a program that uses it would see. Every answer is looked at; one that is
no reply, or not the one that was expected, is counted and makes the command fail.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, TextIO, final

import msgspec

from bandstand.bus.client.connection import Connection, connect
from bandstand.cli.arguments import data_of
from bandstand.cli.describing import read_description
from bandstand.cli.exits import Errors, Exit
from bandstand.cli.terminal import printable
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import AskTimeout, InvalidArgument, RequestFailed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bandstand.bus.frame import Kind
    from bandstand.cli.target import Target

__all__ = ("Bench", "Measured", "Progress", "bench")

# How often the bar is drawn anew, in seconds.
REDRAW_S = 0.1
BAR = 24
# How many times are kept: beyond that, the least recent give way.
MOST_TIMES = 1_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """What is to be measured."""

    type: str = "Syscall.Ping"
    arguments: Sequence[str] = ()
    count: int = 0
    """How many requests; 0 for as many as there is time for."""
    for_ms: int = 3000
    concurrency: int = 64
    """How many are under way at once, on each connection."""
    connections: int = 1
    expect: str = ""
    """The data that every answer must have, as JSON; empty for any reply."""
    is_json: bool = False


@final
@dataclass(slots=True)
class Measured:
    """What was measured."""

    type: str
    answered: int = 0
    wrong: dict[str, int] = field(default_factory=dict[str, int])
    """What else was answered than what was expected, and how often."""
    seconds: float = 0.0
    rate: float = 0.0
    """Answers a second."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


def bench(wish: Bench, target: Target, out: TextIO, err: TextIO) -> Exit:
    """Measure, and print what was measured; `FAILED` if an answer was wrong."""
    if wish.expect:
        try:
            json.loads(wish.expect)
        except ValueError as error:
            raise InvalidArgument(f"--expect {wish.expect} is no JSON: {error}") from None
    progress = Progress(wish, err)
    with Errors(err) as errors:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            found = runner.run(_measure(wish, target, progress))
        progress.clear()
        out.write(json.dumps(asdict(found)) + "\n" if wish.is_json else _text(found))
        return Exit.FAILED if found.wrong or not found.answered else Exit.REPLY
    progress.clear()
    return errors.exit


def _text(found: Measured) -> str:
    lines = [
        f"{found.answered:,} answers to {printable(found.type)} in {found.seconds:.2f} s: {found.rate:,.0f} a second",
        f"p50 {found.p50_ms:.3f} ms, p99 {found.p99_ms:.3f} ms, max {found.max_ms:.3f} ms",
    ]
    lines += [f"wrong: {count:,} × {printable(what)}" for what, count in found.wrong.items()]
    return "\n".join(lines) + "\n"


async def _measure(wish: Bench, target: Target, progress: Progress) -> Measured:
    config = target.config()
    async with AsyncExitStack() as stack:
        buses = [
            await stack.enter_async_context(connect(target.address, config)) for _ in range(wish.connections)
        ]
        kind, data = await _prepare(wish, buses[0])
        run = _Run(wish, kind, data, progress)
        began = time.perf_counter()
        run.until = began + wish.for_ms / 1000
        try:
            async with asyncio.TaskGroup() as group:
                for bus in buses:
                    for _ in range(wish.concurrency):
                        group.create_task(run.work(bus))
        except ExceptionGroup as several:
            # All for the one reason: a node that is gone is gone for each of them.
            raise several.exceptions[0] from None
        return run.result(time.perf_counter() - began)


async def _prepare(wish: Bench, bus: Connection) -> tuple[Kind, bytes]:
    answer = await bus.exchange("query", "Syscall.Describe", {"type": wish.type})
    if answer.kind == "error":
        data: dict[str, str] = msgspec.json.decode(answer.data)
        raise RequestFailed.of(wish.type, answer.type, data, data["message"])
    found = [
        each
        for one in read_description(answer).capabilities
        for each in one.handles
        if each.type == wish.type
    ]
    if not found:
        raise InvalidArgument(f"{wish.type} is an event, which is owed no answer: bench commands and queries")
    return found[0].kind, data_of(wish.arguments, found[0].schema)


@final
class _Run:
    """One measurement, under way."""

    def __init__(self, wish: Bench, kind: Kind, data: bytes, progress: Progress) -> None:
        self._wish = wish
        self._kind: Kind = kind
        self._data = data
        self._progress = progress
        self._expected: object = json.loads(wish.expect) if wish.expect else None
        self._begun = 0
        self._times: list[float] = []
        self._answered = 0
        self._wrong: Counter[str] = Counter()
        self.until = 0.0

    async def work(self, bus: Connection) -> None:
        """One request after the other, until there is no time or nothing left."""
        wish = self._wish
        while (self._begun < wish.count) if wish.count else (time.perf_counter() < self.until):
            self._begun += 1
            began = time.perf_counter()
            try:
                answer = await bus.exchange(self._kind, wish.type, self._data)
            except AskTimeout:
                self._wrong["no answer in time"] += 1
                continue
            took = time.perf_counter() - began
            if len(self._times) < MOST_TIMES:
                self._times.append(took)
            else:
                self._times[self._answered % MOST_TIMES] = took
            self._answered += 1
            if answer.kind == "error":
                self._wrong[answer.type] += 1
            elif wish.expect and msgspec.json.decode(answer.data) != self._expected:
                self._wrong["another answer than --expect"] += 1
            self._progress.draw(self._answered)

    def result(self, seconds: float) -> Measured:
        """What it has come to."""
        times = sorted(self._times) or [0.0]
        return Measured(
            type=self._wish.type,
            answered=self._answered,
            wrong=dict(self._wrong),
            seconds=seconds,
            rate=self._answered / seconds if seconds else 0.0,
            p50_ms=times[len(times) // 2] * 1000,
            p99_ms=times[min(len(times) - 1, len(times) * 99 // 100)] * 1000,
            max_ms=times[-1] * 1000,
        )


@final
class Progress:
    """A bar, where somebody looks."""

    def __init__(self, wish: Bench, err: TextIO, now: Callable[[], float] = time.perf_counter) -> None:
        self._wish = wish
        self._err = err
        self._now = now
        self._is_on = err.isatty()
        self._began = now()
        self._due = 0.0

    def draw(self, answered: int) -> None:
        """Show how far it has come, if it is time for that."""
        if not self._is_on or (now := self._now()) < self._due:
            return
        self._due = now + REDRAW_S
        past = now - self._began
        share = min(1.0, answered / self._wish.count if self._wish.count else past * 1000 / self._wish.for_ms)
        done = int(share * BAR)
        self._err.write(
            f"\r[{'█' * done}{'·' * (BAR - done)}] {share:4.0%}  {answered / max(past, 1e-9):,.0f}/s "
        )
        self._err.flush()

    def clear(self) -> None:
        """Take it away."""
        if self._is_on:
            self._err.write("\r\x1b[K")
            self._err.flush()
