"""A real node in a process of its own, one client after the other that says whatever the fuzzer has thought of, and a neighbour beside them.

After each input: every request that could be read has had exactly one answer, every line that could not has had one error, and the process
lives. All the while a neighbour asks and is answered. In the end the books balance, nothing is in flight, nobody has failed whom nobody made
fail, and there are no more descriptors and not much more memory than after the first inputs.
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

from tests.bus.crowd import frame
from tests.fuzz.mutator import Mutator
from tests.fuzz.oracle import owed_at_door, owed_for
from tests.fuzz.specimen import LINE_BYTES, TOKEN
from tests.soak.memory import MEBIBYTE
from tests.soak.process import PATIENCE, ROOT, NodeProcess, balance_of

CORPUS = Path(__file__).parent / "corpus"
MODULE = "tests.fuzz.specimen"
"""What serves the node."""
FOUND = ROOT / "build" / "fuzz"
DOOR = "handshakes"
"""The part of the corpus that is said where a token must be shown first."""
TOKEN_MARK = b"@TOKEN@"
GROWTH = 16 * MEBIBYTE
"""What may be resident beyond the warm-up: the allocator's own raggedness, whatever the length of the run."""
WARM_UP = 2000
"""Inputs after which memory must not grow any more."""
LAST = 16
"""How many inputs are kept, to be saved when something is wrong: what shows now may come from before."""


@dataclass(frozen=True)
class Entry:
    """One file of the corpus."""

    name: str
    text: bytes

    @property
    def is_for_door(self) -> bool:
        return self.name.startswith(f"{DOOR}/")


def read_corpus(folder: Path = CORPUS) -> list[Entry]:
    """All of it, in the order of its names."""
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
    """The longest that the neighbour has waited."""
    resident_mib: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])
    saved: str = ""
    """Where the last inputs are, if something is wrong."""


class Neighbour(threading.Thread):
    """Asks one thing after the other, and must be answered, whatever others say."""

    def __init__(self, node: NodeProcess) -> None:
        super().__init__(name="neighbour", daemon=True)
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
            self.failure = f"the neighbour, after {self.pings} answers: {error!r}"

    def _ask(self, read: Callable[[], bytes]) -> None:
        name, begun = f"n{self.pings}", time.monotonic()
        self._connection.sendall(frame(name, "Syscall.Ping"))
        answer = json.loads(read())
        assert (answer["kind"], answer["metadata"]["causation"]) == ("reply", name), answer
        self.slowest = max(self.slowest, time.monotonic() - begun)
        self.pings += 1

    def go_home(self) -> None:
        self._is_over.set()
        self.join(PATIENCE)
        if self.is_alive() and not self.failure:
            self.failure = "the neighbour is not answered any more"


class Arena:
    """One node, and what is said to it."""

    def __init__(self, node: NodeProcess, random: Random) -> None:
        self._node = node
        self._random = random
        self.answers = 0

    def try_out(self, entry: Entry) -> list[str]:
        """Say something, and hold the answers against what is owed."""
        by_tcp = entry.is_for_door or self._random.random() < 0.3
        text = entry.text
        if by_tcp and not entry.is_for_door:
            text = frame("greeting", "Syscall.Authenticate", "command", token=TOKEN) + text
        owed = owed_at_door(text, LINE_BYTES, TOKEN) if by_tcp else owed_for(text, LINE_BYTES)
        try:
            heard = self._converse(text, by_tcp=by_tcp)
        except (OSError, ValueError) as error:
            return [f"{error!r} came of it"]
        self.answers += len(heard)
        return owed.complaints(heard)

    def _converse(self, text: bytes, *, by_tcp: bool) -> list[dict[str, Any]]:
        """Say all of it, a piece at a time, listen meanwhile, and to the end."""
        chunk = self._random.choice((1, 7, 100, 4096, 1 << 20)) if len(text) < 2000 else 1 << 20
        heard = bytearray()
        with self._node.connect(by_tcp=by_tcp) as connection:
            connection.settimeout(0)
            view = memoryview(text)
            is_heard = False
            end = time.monotonic() + PATIENCE
            is_said = False
            while not is_heard:
                if not view and not is_said:
                    is_said = True
                    # One that is not let in may be gone already.
                    with suppress(OSError):
                        connection.shutdown(socket.SHUT_WR)
                left = end - time.monotonic()
                readable, writable, _ = select.select(
                    [connection], [connection] if view else [], [], max(0.0, left)
                )
                if not (readable or writable):
                    raise TimeoutError(f"no end in {PATIENCE:g} s; {len(heard)} bytes have come")
                if writable:
                    view = self._say(connection, view, chunk)
                if readable:
                    is_heard = self._hear(connection, heard)
        lines = bytes(heard).decode().split("\n")
        assert lines.pop() == "", "the last line has no end"
        return [json.loads(line) for line in lines]

    @staticmethod
    def _say(connection: socket.socket, view: memoryview, chunk: int) -> memoryview:
        try:
            return view[connection.send(view[:chunk]) :]
        except BlockingIOError:
            return view
        except OSError:
            # The other end has heard enough; what it had to say to that is still to be read.
            return view[:0]

    @staticmethod
    def _hear(connection: socket.socket, heard: bytearray) -> bool:
        """Whether that was the end."""
        try:
            data = connection.recv(1 << 18)
        except ConnectionResetError:
            data = b""
        heard += data
        return not data


class Inputs:
    """The corpus, then mutants of it for so long."""

    def __init__(self, random: Random, corpus: Sequence[Entry], seconds: float) -> None:
        self._random = random
        self._corpus = corpus
        self._seconds = seconds
        self._mutators = {
            is_for_door: Mutator(
                random, [each.text for each in corpus if each.is_for_door is is_for_door] or [b""]
            )
            for is_for_door in (False, True)
        }

    def __iter__(self) -> Iterator[Entry]:
        yield from self._corpus
        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            is_for_door = self._random.random() < 0.15
            yield Entry(f"{DOOR}/mutant" if is_for_door else "mutant", self._mutators[is_for_door].make())


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
        neighbour = Neighbour(node)
        neighbour.start()
        try:
            node.ask("Syscall.Ping")
            before, warm = node.descriptors(), 0
            arena = Arena(node, random)
            for entry in inputs:
                last.append(entry)
                report.inputs += 1
                found = arena.try_out(entry) + _signs(node, neighbour)
                report.failures += [f"input {report.inputs} ({entry.name}): {sentence}" for sentence in found]
                report.seconds, report.answers = time.monotonic() - begin, arena.answers
                if report.inputs == WARM_UP:
                    warm = node.resident()
                if report.inputs % 50 == 0:
                    tell(report)
                if report.failures:
                    break
            _end(node, neighbour, before, warm, report)
            if report.failures:
                report.saved = _save(seed, last, node.said)
        finally:
            neighbour.go_home()
            node.kill()
    return report


def _signs(node: NodeProcess, neighbour: Neighbour) -> list[str]:
    """What is wrong besides."""
    if not node.is_alive:
        return ["the node has died"]
    return [neighbour.failure] if neighbour.failure else []


def _end(node: NodeProcess, neighbour: Neighbour, before: int, warm: int, report: Report) -> None:
    """Send all home, and look at what is left."""
    neighbour.go_home()
    report.pings, report.slowest_ms = neighbour.pings, round(neighbour.slowest * 1000, 1)
    if neighbour.failure and not report.failures:
        report.failures.append(neighbour.failure)
    try:
        report.failures += _look_back(node, before, warm, report)
        if (code := node.stop()) != 0:
            report.failures.append(f"told to stop, the node ended with {code}")
    except (OSError, ValueError) as error:
        report.failures.append(f"in the end the node has died, or does not answer: {error!r}")
    report.failures += node.complaints()


def _look_back(node: NodeProcess, before: int, warm: int, report: Report) -> list[str]:
    """What is wrong with a node that has heard it all, and should be as it was."""
    found: list[str] = []
    end = time.monotonic() + PATIENCE
    while True:
        stats = node.ask("Syscall.Stats")
        # The one in flight is this question, and so is the client.
        is_quiet = stats["clients"] == 1 and stats["requests"]["inFlight"] == 1
        # The neighbour has gone home.
        is_tidy = node.descriptors() <= before
        if (is_quiet and is_tidy) or time.monotonic() > end:
            break
        time.sleep(0.02)
    if not is_quiet:
        found.append(f"all have gone, and the node says {stats}")
    if not is_tidy:
        found.append(f"{node.descriptors()} descriptors are open; there were {before}")
    if lost := balance_of(stats["requests"]):
        found.append(f"the books do not account for {lost} requests: {stats['requests']}")
    health = node.ask("Syscall.Health")["capabilities"]
    if failed := {name: each for name, each in health.items() if each["crashes"] and name != "Clown"}:
        found.append(f"these have failed, and nobody made them: {failed}")
    resident = node.resident()
    report.resident_mib = [round(each / MEBIBYTE, 1) for each in (warm, resident)]
    if warm and resident - warm > GROWTH:
        found.append(f"{(resident - warm) / MEBIBYTE:.1f} MiB more are resident than after {WARM_UP} inputs")
    return found


def _save(seed: int, last: Sequence[Entry], said: str) -> str:
    """Keep the last inputs as files, the last of them the last."""
    folder = FOUND / f"{seed}-{int(time.time())}"
    folder.mkdir(parents=True, exist_ok=True)
    for number, entry in enumerate(last):
        part = folder / DOOR if entry.is_for_door else folder
        part.mkdir(exist_ok=True)
        (part / f"{number:02}.bin").write_bytes(entry.text.replace(TOKEN.encode(), TOKEN_MARK))
    (folder / "stderr.txt").write_text(said, "utf-8")
    return str(folder)
