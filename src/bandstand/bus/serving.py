"""A node as a program of its own: boots, says so, runs until it is told to stop or has nothing left to do.

What a program reads comes on standard output, one JSON message a line; what a person reads, on standard error. The exit code is 0
if it has stopped in good order, by a signal or by itself, and 1 if it did not start or has failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import TextIO, cast

from bandstand.bus.adapters.stdio import PipeAdapter
from bandstand.bus.config import NodeConfig
from bandstand.bus.contracts.capability import Capability, Provision
from bandstand.bus.contracts.contract import Contract
from bandstand.bus.faults import BOOT_FAILED, FaultMaker
from bandstand.bus.hot.idmaker import IdMaker
from bandstand.bus.node import Node
from bandstand.bus.ports import Adapter
from bandstand.bus.summary import BootSummary
from bandstand.bus.wire import write_frame
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BandstandError, BootFailed
from bandstand.errors.formatting import safe_str
from bandstand.streams import queued

__all__ = ("Service", "serve")

SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What to serve, and how."""

    load: Callable[[], Iterable[type[Capability] | Provision | Contract]]
    """Finds the capabilities."""
    adapters: Sequence[Adapter]
    config: NodeConfig | None = None
    """The limits of the node; None for the usual ones."""
    is_batch: bool = False
    """Whether to end when there is nothing left to do."""
    advice: Callable[[BootSummary], str] | None = None
    """What else to say to people when it is ready."""
    is_quiet: bool = False
    """Whether people hear of nothing but failures, and what capabilities print."""


def serve(service: Service, out: TextIO | None, err: TextIO) -> int:
    """Run a node on this thread until it ends; the exit code.

    Args:
        service: what, and how.
        out: where to write what programs read; None if none does.
        err: where to write what people read. What capabilities print goes there, too, and lines of the log that go to standard error.

    Neither stream blocks the node: up to 1 MiB waits until it is read, what comes then is dropped, and a line says how many lines that
    were.
    """
    with ExitStack() as stack:
        # Neither may block the node when nothing reads them: a full pipe would stop it for all its clients.
        people = stack.enter_context(queued(err))
        # An adapter that answers on the same descriptor must come after what is said first; its reader reads, or wants no answers.
        is_shared = any(isinstance(adapter, PipeAdapter) for adapter in service.adapters)
        programs = out if out is None or is_shared else stack.enter_context(queued(out))
        stack.enter_context(_log_to(people, {err, sys.stderr, sys.stdout}))
        # Standard output is for programs: what a capability prints is for people.
        stack.enter_context(redirect_stdout(people))
        if people is not err:
            stack.enter_context(redirect_stderr(people))
        return _guarded(service, programs, people)


@contextmanager
def _log_to(stream: TextIO, instead_of: set[TextIO]) -> Generator[None]:
    """Have log handlers that write to one of these streams write to another one for a while."""
    moved: list[tuple[logging.StreamHandler[TextIO], TextIO]] = []
    for name in ("", "bandstand"):
        for handler in logging.getLogger(name).handlers:
            if isinstance(handler, logging.StreamHandler):
                writer = cast("logging.StreamHandler[TextIO]", handler)
                if writer.stream in instead_of:
                    moved.append((writer, writer.stream))
                    writer.setStream(stream)
    try:
        yield
    finally:
        for writer, before in moved:
            writer.setStream(before)


def _guarded(service: Service, out: TextIO | None, err: TextIO) -> int:
    """The same, with the handlers of signals as they were in the end."""
    before = [signal.getsignal(number) for number in SIGNALS]
    try:
        return _serve(service, out, err)
    finally:
        for number, handler in zip(SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _serve(service: Service, out: TextIO | None, err: TextIO) -> int:
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run(service, out, err))
    except BootFailed as error:
        ids = IdMaker()
        fault = FaultMaker(ids, ids.now_ms).make(BOOT_FAILED, safe_str(error))
        _print(out, write_frame(fault).decode())
        _print(err, f"bandstand: {safe_str(error)}")
        return 1
    except BandstandError as error:
        _print(err, f"bandstand: the node has failed: {safe_str(error)}")
        return 1
    except asyncio.CancelledError:
        _print(err, "bandstand: stopped before it had started")
        return 1
    return 0


async def _run(service: Service, out: TextIO | None, err: TextIO) -> None:
    stop = asyncio.Event()
    booting = asyncio.current_task()
    began = time.perf_counter()
    running = asyncio.get_running_loop()
    people = None if service.is_quiet else err

    def told_to_stop(number: int) -> None:
        if stop.is_set():
            # Who then presses Ctrl-C does not want to wait for anybody. A second SIGTERM means nothing: those who send one to a
            # process and to its group send two.
            if number == signal.SIGINT:
                os._exit(1)
            return
        _print(people, "bandstand: stopping; Ctrl-C to stop at once")
        stop.set()
        if booting is not None:
            # It may wait for something that never comes.
            booting.cancel()

    def ready(node: Node) -> None:
        nonlocal booting
        booting = None
        _print(out, write_frame(node.boot_message).decode())
        _print(people, summary_text(node.summary, (time.perf_counter() - began) * 1000))
        if service.advice is not None:
            _print(people, service.advice(node.summary))

    for number in SIGNALS:
        running.add_signal_handler(number, told_to_stop, number)
    try:
        async with Node(
            adapters=service.adapters, config=service.config, load=service.load, on_ready=ready
        ) as node:
            await _serve_until(stop, node if service.is_batch else None)
    finally:
        for number in SIGNALS:
            running.remove_signal_handler(number)
            # It has stopped: being told so once more, on the way out, must not make a failure of it.
            signal.signal(number, signal.SIG_IGN)


async def _serve_until(stop: asyncio.Event, batch: Node | None) -> None:
    """Wait until told to stop; in batch mode, until there is nothing left to do."""
    if batch is None:
        await stop.wait()
        return
    quiet, told = asyncio.ensure_future(batch.wait_quiet()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([quiet, told], return_when=asyncio.FIRST_COMPLETED)
        if quiet.done():
            # An adapter may have failed to say whether it is done.
            quiet.result()
    finally:
        quiet.cancel()
        told.cancel()


def summary_text(summary: BootSummary, took_ms: float) -> str:
    """What has started, for people."""
    lines = [f"bandstand: ready in {took_ms:.0f} ms"]
    lines += [
        f"  {each.id:<12} {', '.join(handle.partition(':')[2] for handle in each.handles)}"
        for each in summary.capabilities
    ]
    lines += [f"  {name} is heard by {', '.join(ids)}" for name, ids in summary.subscriptions.items()]
    lines += [f"  listening on {name}" for name in summary.adapters]
    return "\n".join(lines)


def _print(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    # Whoever started the node may have stopped reading; that is no reason to stop serving.
    with suppress(OSError, ValueError):
        stream.write(text + "\n")
        stream.flush()
