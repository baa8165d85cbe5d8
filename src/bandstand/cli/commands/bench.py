"""`bandstand bench`: measures the throughput and the latency of a running node.

It measures the node, the socket and this client together, which is what a program sees. Every answer is checked: one that is an error,
or not the expected one, is counted and makes the command fail.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, TextIO, final

import msgspec

from bandstand.bus.client.connection import Connection, connect
from bandstand.cli.arguments import parse_data
from bandstand.cli.commands.describe import read_description
from bandstand.cli.output import ErrorReporter, ExitCode, ProgressBar, printable
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import AskTimeoutError, InvalidArgumentError, RequestFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bandstand.bus.frame import Kind
    from bandstand.cli.settings import Target

__all__ = ("BenchOptions", "BenchResult", "Progress", "bench")

# The number of latencies to keep; over this limit, new ones replace the oldest.
_MAX_TIMES: Final = 1_000_000


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure."""

    type: str = "Syscall.Ping"
    arguments: Sequence[str] = ()
    count: int = 0
    """The number of requests; 0 to send requests for `duration` seconds."""
    duration: float = 3.0
    concurrency: int = 64
    """The number of requests in flight on each connection."""
    connections: int = 1
    expect: str = ""
    """The data that every reply must have, as JSON; empty for any data."""
    is_json: bool = False


@final
@dataclass(slots=True)
class BenchResult:
    """The result of a measurement."""

    type: str
    answered: int = 0
    wrong: dict[str, int] = field(default_factory=dict[str, int])
    """The wrong answers, with their numbers."""
    seconds: float = 0.0
    rate: float = 0.0
    """Answers per second."""
    p50_ms: float = 0.0
    p99_ms: float = 0.0
    max_ms: float = 0.0


def bench(options: BenchOptions, target: Target, out: TextIO, err: TextIO) -> ExitCode:
    """Measure, and print the result; `FAILED` if an answer is wrong."""
    if options.expect:
        try:
            json.loads(options.expect)
        except ValueError as error:
            raise InvalidArgumentError(f"--expect {options.expect} is not valid JSON: {error}") from None
    progress = Progress(options, err)
    with ErrorReporter(err) as reporter:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            found = runner.run(_measure(options, target, progress))
        progress.clear()
        out.write(json.dumps(asdict(found)) + "\n" if options.is_json else _text(found))
        return ExitCode.FAILED if found.wrong or not found.answered else ExitCode.SUCCESS
    progress.clear()
    return reporter.exit_code


def _text(found: BenchResult) -> str:
    lines = [
        f"{found.answered:,} answers to {printable(found.type)} in {found.seconds:.2f} s: {found.rate:,.0f} per second",
        f"p50 {found.p50_ms:.3f} ms, p99 {found.p99_ms:.3f} ms, max {found.max_ms:.3f} ms",
    ]
    lines += [f"wrong: {count:,} × {printable(what)}" for what, count in found.wrong.items()]
    return "\n".join(lines) + "\n"


async def _measure(options: BenchOptions, target: Target, progress: Progress) -> BenchResult:
    config = target.config()
    async with AsyncExitStack() as stack:
        buses = [
            await stack.enter_async_context(connect(target.address, config))
            for _ in range(options.connections)
        ]
        kind, data = await _prepare(options, buses[0])
        run = _Run(options, kind, data, progress)
        began = time.perf_counter()
        run.until = began + options.duration
        try:
            async with asyncio.TaskGroup() as group:
                for bus in buses:
                    for _ in range(options.concurrency):
                        group.create_task(run.work(bus))
        except ExceptionGroup as several:
            # All tasks fail for the same reason, such as a lost connection.
            raise several.exceptions[0] from None
        return run.result(time.perf_counter() - began)


async def _prepare(options: BenchOptions, bus: Connection) -> tuple[Kind, bytes]:
    answer = await bus.exchange("query", "Syscall.Describe", {"type": options.type})
    if answer.kind == "error":
        data: dict[str, str] = msgspec.json.decode(answer.data)
        raise RequestFailedError.of(options.type, answer.type, data, data["message"])
    found = [
        each
        for one in read_description(answer).capabilities
        for each in one.handles
        if each.type == options.type
    ]
    if not found:
        raise InvalidArgumentError(
            f"{options.type} is an event, and events have no answer: pass a command or a query"
        )
    return found[0].kind, parse_data(options.arguments, found[0].schema)


@final
class _Run:
    """A running measurement."""

    def __init__(self, options: BenchOptions, kind: Kind, data: bytes, progress: Progress) -> None:
        self._options = options
        self._kind: Kind = kind
        self._data = data
        self._progress = progress
        self._expected: object = json.loads(options.expect) if options.expect else None
        self._started = 0
        self._times: list[float] = []
        self._answered = 0
        self._wrong: Counter[str] = Counter()
        self.until = 0.0

    async def work(self, bus: Connection) -> None:
        """Send one request after the other, until the time is over or all are sent."""
        options = self._options
        while (self._started < options.count) if options.count else (time.perf_counter() < self.until):
            self._started += 1
            began = time.perf_counter()
            try:
                answer = await bus.exchange(self._kind, options.type, self._data)
            except AskTimeoutError:
                self._wrong["no answer in time"] += 1
                continue
            took = time.perf_counter() - began
            if len(self._times) < _MAX_TIMES:
                self._times.append(took)
            else:
                self._times[self._answered % _MAX_TIMES] = took
            self._answered += 1
            if answer.kind == "error":
                self._wrong[answer.type] += 1
            elif options.expect and msgspec.json.decode(answer.data) != self._expected:
                self._wrong["another answer than --expect"] += 1
            self._progress.draw(self._answered)

    def result(self, seconds: float) -> BenchResult:
        """Return the result."""
        times = sorted(self._times) or [0.0]
        return BenchResult(
            type=self._options.type,
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
    """Shows how far a measurement is, if standard error is a terminal."""

    def __init__(
        self, options: BenchOptions, err: TextIO, now: Callable[[], float] = time.perf_counter
    ) -> None:
        self._options = options
        self._bar = ProgressBar(err, now)
        self._now = now
        self._began = now()

    def draw(self, answered: int) -> None:
        """Draw the bar, unless the last update was a moment ago."""
        if self._bar.is_due():
            past = self._now() - self._began
            options = self._options
            share = answered / options.count if options.count else past / options.duration
            self._bar.draw(share, f"{answered / max(past, 1e-9):,.0f}/s")

    def clear(self) -> None:
        """Erase the bar."""
        self._bar.clear()
