"""Runs a node as a program: it boots, reports that it is ready, and runs until a signal stops it or it has nothing left to do.

Output for programs goes to standard output, one JSON message per line; text for people goes to standard error. The exit code is 0 if the
node stopped gracefully, and 1 if it did not start or failed.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shlex
import shutil
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from typing import Final, TextIO, cast

from bandstand.bus.adapters.stdio import PipeAdapter
from bandstand.bus.boot_summary import BootSummary
from bandstand.bus.config import NodeConfig
from bandstand.bus.contracts.capability import Capability, Contract, Provision
from bandstand.bus.faults import BOOT_FAILED, FaultMaker
from bandstand.bus.frame import IdGenerator
from bandstand.bus.node import Node
from bandstand.bus.protocols import Adapter
from bandstand.bus.wire import write_frame
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BandstandError, BootError
from bandstand.errors.formatting import safe_str
from bandstand.streams import queued

__all__ = ("Service", "raw_client_command", "serve", "suggest_commands")

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_BUILT_IN: Final = frozenset({"Dead", "Memory", "Syscall", "Timer"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A node to run as a program."""

    load: Callable[[], Iterable[type[Capability] | Provision | Contract]]
    """Returns the capabilities."""
    adapters: Sequence[Adapter]
    config: NodeConfig | None = None
    """The limits of the node; None for the defaults."""
    journal: str | None = None
    """The directory of the node's journal; None for no journal."""
    is_batch: bool = False
    """Whether to stop when there is nothing left to do."""
    advice: Callable[[BootSummary], str] | None = None
    """Returns more text for people, printed when the node is ready."""
    is_quiet: bool = False
    """Whether to print no text for people, except errors and the output of capabilities."""


def serve(service: Service, out: TextIO | None, err: TextIO) -> int:
    """Run a node on this thread until it stops, and return the exit code.

    Args:
        service: the node to run.
        out: the stream for programs; None if no program reads it.
        err: the stream for people. It also gets what capabilities print, and log lines that go to standard error.

    Neither stream blocks the node: up to 1 MiB of output waits for the reader. More is dropped, and a line says how many lines were.
    """
    with ExitStack() as stack:
        # A full pipe that nothing reads would block the node for all its clients.
        people = stack.enter_context(queued(err))
        # No queue if an adapter writes to the same descriptor: its answers could overtake the boot message.
        is_shared = any(isinstance(adapter, PipeAdapter) for adapter in service.adapters)
        programs = out if out is None or is_shared else stack.enter_context(queued(out))
        stack.enter_context(_log_to(people, {err, sys.stderr, sys.stdout}))
        # Standard output is for programs, so the output of capabilities goes to people.
        stack.enter_context(redirect_stdout(people))
        if people is not err:
            stack.enter_context(redirect_stderr(people))
        return _run_with_signals_restored(service, programs, people)


@contextmanager
def _log_to(stream: TextIO, instead_of: set[TextIO]) -> Generator[None]:
    """Redirect log handlers that write to one of the streams `instead_of` to `stream`, and restore them at the end."""
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


def _run_with_signals_restored(service: Service, out: TextIO | None, err: TextIO) -> int:
    """Run the node, and restore the signal handlers at the end."""
    before = [signal.getsignal(number) for number in _SIGNALS]
    try:
        return _run(service, out, err)
    finally:
        for number, handler in zip(_SIGNALS, before, strict=True):
            signal.signal(number, handler)


def _run(service: Service, out: TextIO | None, err: TextIO) -> int:
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run_node(service, out, err))
    except BootError as error:
        ids = IdGenerator()
        fault = FaultMaker(ids, ids.now_ms).make(BOOT_FAILED, safe_str(error))
        _print(out, write_frame(fault).decode())
        _print(err, f"bandstand: {safe_str(error)}")
        return 1
    except BandstandError as error:
        _print(err, f"bandstand: the node has failed: {safe_str(error)}")
        return 1
    except asyncio.CancelledError:
        _print(err, "bandstand: stopped before the node was ready")
        return 1
    return 0


async def _run_node(service: Service, out: TextIO | None, err: TextIO) -> None:
    stop = asyncio.Event()
    booting = asyncio.current_task()
    started = time.perf_counter()
    event_loop = asyncio.get_running_loop()
    people = None if service.is_quiet else err

    def on_signal(number: int) -> None:
        if stop.is_set():
            # A second Ctrl-C exits at once. A second SIGTERM does not: a service manager that signals the process and its process
            # group sends two.
            if number == signal.SIGINT:
                os._exit(1)
            return
        _print(people, "bandstand: stopping; press Ctrl-C to exit at once")
        stop.set()
        if booting is not None:
            # The boot may wait for something that never happens.
            booting.cancel()

    def on_ready(node: Node) -> None:
        nonlocal booting
        booting = None
        _print(out, write_frame(node.boot_message).decode())
        _print(people, summary_text(node.summary, (time.perf_counter() - started) * 1000))
        if service.advice is not None:
            _print(people, service.advice(node.summary))

    for number in _SIGNALS:
        event_loop.add_signal_handler(number, on_signal, number)
    try:
        async with Node(
            adapters=service.adapters,
            config=service.config,
            journal=service.journal,
            load=service.load,
            on_ready=on_ready,
        ) as node:
            await _serve_until(stop, node if service.is_batch else None)
    finally:
        for number in _SIGNALS:
            event_loop.remove_signal_handler(number)
            # The node has stopped: another signal must not turn that into a failure.
            signal.signal(number, signal.SIG_IGN)


async def _serve_until(stop: asyncio.Event, batch: Node | None) -> None:
    """Wait for `stop`; in batch mode, also until the node has nothing left to do."""
    if batch is None:
        await stop.wait()
        return
    quiet, stopped = asyncio.ensure_future(batch.wait_quiet()), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait([quiet, stopped], return_when=asyncio.FIRST_COMPLETED)
        if quiet.done():
            # Raises what an adapter raised when it was asked whether it is done.
            quiet.result()
    finally:
        quiet.cancel()
        stopped.cancel()


def summary_text(summary: BootSummary, took_ms: float) -> str:
    """Return the text for people that says what has started."""
    lines = [f"bandstand: ready in {took_ms:.0f} ms"]
    lines += [
        f"  {each.id:<12} {', '.join(handle.partition(':')[2] for handle in each.handles)}"
        for each in summary.capabilities
    ]
    lines += [f"  {name} is received by {', '.join(ids)}" for name, ids in summary.subscriptions.items()]
    lines += [f"  listening on {name}" for name in summary.adapters]
    return "\n".join(lines)


def _print(stream: TextIO | None, text: str) -> None:
    if stream is None:
        return
    # The node keeps running if the reader has closed the stream.
    with suppress(OSError, ValueError):
        stream.write(text + "\n")
        stream.flush()


def suggest_commands(summary: BootSummary, program: str, token_file: str | None, *, is_default: bool) -> str:
    """Return command lines to try in another terminal.

    Args:
        summary: the summary of the node.
        program: the name of the command.
        token_file: the file with the token that TCP clients must send; None for no token.
        is_default: whether the node listens at the default address, so that the lines need no `--to`.
    """
    place = next((name for name in summary.adapters if name.partition(":")[0] in {"unix", "tcp"}), "")
    to = "" if is_default else f" --to {shlex.quote(place)}"
    has_token = token_file is not None and place.startswith("tcp:")
    if has_token:
        to += f" --token-file {shlex.quote(token_file or '')}"
    own = [each for each in summary.capabilities if each.id not in _BUILT_IN and each.handles]
    shown = own[0].handles[0].partition(":")[2] if own else "Memory.Set"
    ping = '{"kind":"query","type":"Syscall.Ping","metadata":{"id":"1","timestamp":0}}'
    pipe = "" if has_token else raw_client_command(place)
    lines = [
        f"{program} describe{to}",
        f"{program} describe {shown}{to}",
        f"{program} call Memory.Set key=greeting value=hello{to}",
        f"{program} call Memory.Get key=greeting{to}",
        *([f"echo '{ping}' | {pipe}"] if pipe else []),
    ]
    return "\n".join(["try in another terminal:", *(f"  {line}" for line in lines)])


def raw_client_command(place: str, which: Callable[[str], str | None] = shutil.which) -> str:
    """Return a command that connects standard input and output to a socket; empty if no such tool is installed."""
    scheme, _, rest = place.partition(":")
    if not which("nc"):
        if not which("socat"):
            return ""
        return f"socat - {'UNIX-CONNECT' if scheme == 'unix' else 'TCP'}:{shlex.quote(rest)}"
    host, _, port = rest.rpartition(":")
    return f"nc -N -U {shlex.quote(rest)}" if scheme == "unix" else f"nc -N {host.strip('[]')} {port}"
