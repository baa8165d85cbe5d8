"""A real node in a process of its own, clients that send it one input after the other, and one client beside them that pings.

After each input, every request that could be read has had exactly one answer, every other line has had one error, and the process lives. All the
time, the pings are answered. In the end the counters balance, nothing is in flight, no capability has failed that was not told to, and there are
no more descriptors and not much more memory than after the first inputs.
"""

from __future__ import annotations

import json
import select
import socket
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.bus.socket_clients import frame
from tests.fuzz.expected_answers import expected_after_authentication, expected_for
from tests.fuzz.mutator import Mutator
from tests.fuzz.node_program import LINE_BYTES, TOKEN
from tests.soak.memory import MEBIBYTE
from tests.soak.node_process import PATIENCE, ROOT, NodeProcess

CORPUS = Path(__file__).parent / "corpus"
MODULE = "tests.fuzz.node_program"
"""What runs the node."""
FOUND = ROOT / "build" / "fuzz"
HANDSHAKES = "handshakes"
"""The part of the corpus that is sent where a token must be shown first."""
TOKEN_MARK = b"@TOKEN@"
GROWTH = 16 * MEBIBYTE
"""How much more may be resident after the warm-up, whatever the length of the run."""
WARM_UP = 2000
"""Inputs after which memory must not grow any more."""
LAST = 16
"""How many inputs are saved when something is wrong: an earlier one may be the cause."""


@dataclass(frozen=True)
class Entry:
    """One file of the corpus."""

    name: str
    text: bytes

    @property
    def is_handshake(self) -> bool:
        return self.name.startswith(f"{HANDSHAKES}/")


def read_corpus(folder: Path = CORPUS) -> list[Entry]:
    """Return the entries of a folder, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != "README.md")
    return [
        Entry(path.relative_to(folder).as_posix(), path.read_bytes().replace(TOKEN_MARK, TOKEN.encode()))
        for path in files
    ]


@dataclass
class Report:
    """What a run has found."""

    seed: int
    inputs: int = 0
    answers: int = 0
    seconds: float = 0.0
    pings: int = 0
    slowest_ms: float = 0.0
    """The longest wait for an answer to a ping."""
    resident_mib: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    saved: str = ""
    """Where the last inputs were saved, if something is wrong."""


class Pinger(threading.Thread):
    """Pings the node, and must be answered whatever other clients send."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(name="pinger", daemon=True)
        self._connection = node.connect()
        self._is_over = threading.Event()
        self.pings = 0
        self.slowest = 0.0
        self.failure = ""

    def run(self) -> None:
        try:
            with self._connection, self._connection.makefile("rb") as answers:
                while not self._is_over.wait(0.002):
                    self._ask(answers.readline)
        except (OSError, ValueError, AssertionError) as error:
            self.failure = f"ping after {self.pings} answers: {error!r}"

    def _ask(self, read: Callable[[], bytes]) -> None:
        name, begun = f"n{self.pings}", time.monotonic()
        self._connection.sendall(frame(name, "Syscall.Ping"))
        answer = json.loads(read())
        assert (answer["kind"], answer["metadata"]["causation"]) == ("reply", name), answer
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.pings += 1

    def stop(self) -> None:
        self._is_over.set()
        self.join(PATIENCE)
        if self.is_alive() and not self.failure:
            self.failure = "pings are not answered any more"


class InputSender:
    """Sends inputs to a node, and compares the answers."""

    def __init__(self, node: NodeProcess, random: Random) -> None:
        self._node = node
        self._random = random
        self.answers = 0

    def send(self, entry: Entry) -> list[str]:
        """Send an input; return what is wrong with the answers."""
        by_tcp = entry.is_handshake or self._random.random() < 0.3
        text = entry.text
        if by_tcp and not entry.is_handshake:
            text = frame("greeting", "Syscall.Authenticate", "command", token=TOKEN) + text
        if by_tcp:
            expected = expected_after_authentication(text, LINE_BYTES, TOKEN)
        else:
            expected = expected_for(text, LINE_BYTES)
        try:
            heard = self._exchange(text, by_tcp=by_tcp)
        except (OSError, ValueError) as error:
            return [f"{error!r} was raised"]
        self.answers += len(heard)
        return expected.complaints(heard)

    def _exchange(self, text: bytes, *, by_tcp: bool) -> list[dict[str, Any]]:
        """Send everything in pieces, and read at the same time, to the end."""
        chunk = self._random.choice((1, 7, 100, 4096, 1 << 20)) if len(text) < 2000 else 1 << 20
        heard = bytearray()
        with self._node.connect(by_tcp=by_tcp) as connection:
            connection.settimeout(0)
            view = memoryview(text)
            is_at_end = False
            end = time.monotonic() + PATIENCE
            is_sent = False
            while not is_at_end:
                if not view and not is_sent:
                    is_sent = True
                    # A connection that is not authenticated may be closed already.
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
                left = end - time.monotonic()
                readable, writable, _ = select.select(
                    [connection], [connection] if view else [], [], max(0.0, left)
                )
                if not (readable or writable):
                    raise TimeoutError(f"no end in {PATIENCE:g} s; {len(heard)} bytes have come")
                if writable:
                    view = self._send_part(connection, view, chunk)
                if readable:
                    is_at_end = self._receive(connection, heard)
        lines = bytes(heard).decode().split("\n")
        assert lines.pop() == "", "the last line has no end"
        return [json.loads(line) for line in lines]

    @staticmethod
    def _send_part(connection: socket.socket, view: memoryview, chunk: int) -> memoryview:
        try:
            return view[connection.send(view[:chunk]) :]
        except BlockingIOError:
            return view
        except OSError:
            # The other end has closed it; what it has sent is still to be read.
            return view[:0]

    @staticmethod
    def _receive(connection: socket.socket, heard: bytearray) -> bool:
        """Read; return whether that was the end."""
        try:
            data = connection.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        heard += data
        return not data


class Inputs:
    """The corpus, then mutants of it until the time is up."""

    def __init__(self, random: Random, corpus: Sequence[Entry], seconds: float) -> None:
        self._random = random
        self._corpus = corpus
        self._seconds = seconds
        self._mutators = {
            is_handshake: Mutator(
                random, [each.text for each in corpus if each.is_handshake is is_handshake] or [b""]
            )
            for is_handshake in (False, True)
        }

    def __iter__(self) -> Iterator[Entry]:
        yield from self._corpus
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            is_handshake = self._random.random() < 0.15
            yield Entry(
                f"{HANDSHAKES}/mutant" if is_handshake else "mutant", self._mutators[is_handshake].make()
            )


def run(
    seed: int,
    seconds: float,
    *,
    entries: Sequence[Entry] | None = None,
    tell: Callable[[Report], None] = lambda _report: None,
) -> Report:
    """Say all of the corpus to a node, then mutants of it for so long; or only these entries. Ends at the first failure."""
    report = Report(seed)
    random, begin = Random(seed), time.monotonic()
    inputs = Inputs(random, read_corpus(), seconds) if entries is None else entries
    last: deque[Entry] = deque(maxlen=LAST)
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        node = NodeProcess(MODULE, Path(folder))
        pinger = Pinger(node)
        pinger.start()
        try:
            node.ask("Syscall.Ping")
            before, warm = node.descriptors(), 0
            sender = InputSender(node, random)
            for entry in inputs:
                last.append(entry)
                report.inputs += 1
                found = sender.send(entry) + _other_failures(node, pinger)
                report.failures += [f"input {report.inputs} ({entry.name}): {sentence}" for sentence in found]
                report.seconds, report.answers = time.monotonic() - begin, sender.answers
                if report.inputs == WARM_UP:
                    warm = node.resident()
                if report.inputs % 50 == 0:
                    tell(report)
                if report.failures:
                    break
            _end(node, pinger, before, warm, report)
            if report.failures:
                report.saved = _save(seed, last, node.said)
        finally:
            pinger.stop()
            node.kill()
    return report


def _other_failures(node: NodeProcess, pinger: Pinger) -> list[str]:
    """Return what else is wrong."""
    if not node.is_alive:
        return ["the node has died"]
    return [pinger.failure] if pinger.failure else []


def _end(node: NodeProcess, pinger: Pinger, before: int, warm: int, report: Report) -> None:
    """Stop pinging, and check what is left."""
    pinger.stop()
    report.pings, report.slowest_ms = pinger.pings, round(pinger.slowest * 1000, 1)
    if pinger.failure and not report.failures:
        report.failures.append(pinger.failure)
    try:
        report.failures += _compare(node, before, warm, report)
        if (code := node.stop()) != 0:
            report.failures.append(f"asked to stop, the node ended with {code}")
    except (OSError, ValueError) as error:
        report.failures.append(f"in the end the node has died, or does not answer: {error!r}")
    report.failures += node.complaints()


def _compare(node: NodeProcess, before: int, warm: int, report: Report) -> list[str]:
    """Return what is wrong with a node that should be as it was."""
    found = node.check_idle(before)
    health = node.ask("Syscall.Health")["capabilities"]
    if failed := {name: each for name, each in health.items() if each["crashes"] and name != "Fragile"}:
        found.append(f"these have failed, and were not told to: {failed}")
    resident = node.resident()
    report.resident_mib = [round(each / MEBIBYTE, 1) for each in (warm, resident)]
    if warm and resident - warm > GROWTH:
        found.append(f"{(resident - warm) / MEBIBYTE:.1f} MiB more are resident than after {WARM_UP} inputs")
    return found


def _save(seed: int, last: Sequence[Entry], said: str) -> str:
    """Save the last inputs as files, in their order."""
    folder = FOUND / f"{seed}-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(last):
        part = folder / HANDSHAKES if entry.is_handshake else folder
        part.mkdir(exist_ok=True)
        (part / f"{number:02}.bin").write_bytes(entry.text.replace(TOKEN.encode(), TOKEN_MARK))
    (folder / "stderr.txt").write_text(said, "utf-8")
    return str(folder)
