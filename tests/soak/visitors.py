"""Those who come to a concert: clients with plain sockets in threads of their own, who ask, listen, talk nonsense, and leave when
they like. Each checks that it is answered exactly once for everything it has asked, as long as it listens."""

from __future__ import annotations

import json
import select
import socket
import threading
import time
from collections import Counter
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Any

from tests.bus.adapters import PATIENCE
from tests.bus.crowd import Guest, frame

if TYPE_CHECKING:
    from tests.soak.concert import Concert

WAYS = ("answer", "answer", "answer", "raise", "refuse", "lie", "dawdle", "twice")
"""What the stumbler can be told to do."""
TIMES = 2000
"""How many latencies are kept."""


class Turned(Exception):  # noqa: N818  # not an error: the house may close at any time
    """The connection has ended, though the visitor wanted to stay."""


class Voice(Guest):
    """A connection that is spoken and listened to at the same time."""

    def converse(self, data: bytes, wanted: set[str]) -> Counter[str | None]:
        """Say all of it and listen until all of these are answered; how often each was.

        Raises:
            Turned: the connection has ended before.
        """
        heard: Counter[str | None] = Counter()
        view, missing = memoryview(data), set(wanted)
        poll = select.poll()
        while view or missing:
            poll.register(self._writer, select.POLLIN | (select.POLLOUT if view else 0))
            if not (ready := poll.poll(PATIENCE * 1000)):
                raise AssertionError(
                    f"{len(missing)} requests are not answered, {sorted(missing)[:1]} for one"
                )
            try:
                if view and ready[0][1] & select.POLLOUT:
                    view = view[self.offer(bytes(view[:65_536])) :]
                if ready[0][1] & ~select.POLLOUT and not self._read():
                    raise Turned
            except OSError as error:
                raise Turned from error
            while self._lines:
                message: dict[str, Any] = json.loads(self._lines.popleft())
                if message["kind"] != "event":
                    about = message["metadata"].get("causation")
                    heard[about] += 1
                    missing.discard(about)
        return heard


class Visitor(threading.Thread):
    """Comes, does something, goes, and comes again, until the concert is over."""

    def __init__(self, concert: Concert, number: int) -> None:
        super().__init__(name=f"visitor {number}", daemon=True)
        self._concert = concert
        self._random = Random(f"{concert.name}/visitor/{number}")
        self._number = number
        self._serial = 0
        self.visits = self.asked = self.answered = self.turned = 0
        self.times: list[float] = []

    def run(self) -> None:
        visits = (self._ask, self._ask, self._ask, self._vanish, self._half_close, self._idle, self._time)
        while not self._concert.is_over:
            visit = self._random.choice(visits)
            try:
                voice = self._enter()
            except OSError:
                if not self._concert.is_closing:
                    self._concert.fail("the node lives, and a client could not connect")
                return
            try:
                visit(voice)
                self.visits += 1
            except (Turned, OSError) as error:
                self.turned += 1
                if not self._concert.is_closing:
                    self._concert.fail(f"a client that behaved was turned out in {visit.__name__}: {error!r}")
            except AssertionError as error:
                self._concert.fail(f"{visit.__name__}: {error}")
            finally:
                voice.close()

    def _enter(self) -> Voice:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self._concert.path)
        except OSError:
            connection.close()
            raise
        number = connection.fileno()
        voice = Voice(
            number, number, closing=connection.close, half=lambda: connection.shutdown(socket.SHUT_WR)
        )
        voice.connection = connection
        return voice

    # -- what they say -------------------------------------------------------------------------------------------------

    def _next(self) -> str:
        self._serial += 1
        return f"{self._number}-{self._serial}"

    def _programme(self, count: int) -> tuple[bytes, set[str]]:
        """So many lines, sensible ones and others, and the ids that are owed an answer."""
        lines: list[bytes] = []
        wanted: set[str] = set()
        for _ in range(count):
            line, request = self._line()
            lines.append(line)
            if request is not None:
                wanted.add(request)
        self.asked += len(wanted)
        return b"".join(lines), wanted

    def _line(self) -> tuple[bytes, str | None]:
        random, name = self._random, self._next()
        match random.randrange(12):
            case 0:
                return frame(name, "Talk.Said", "event", text="x" * random.choice((1, 500))), None
            case 1:
                noise = random.randbytes(random.choice((5, 50, 9000))).replace(b"\n", b"")
                return noise + b"\n", None
            case 2:
                wrong = random.choice(("Memory.Sett", "Nobody.Home", "Syscall.Ping", "Memory.Set"))
                return frame(name, wrong, "command"), name
            case 3 | 4 | 5:
                metadata = {"timeout": random.choice((1, 5, 1000))} if random.random() < 0.3 else None
                return frame(name, "Stumbler.Do", "command", metadata=metadata, way=random.choice(WAYS)), name
            case _:
                return self._sensible(name, f"k{random.randrange(20)}"), name

    def _sensible(self, name: str, key: str) -> bytes:
        random = self._random
        match random.randrange(6):
            case 0 | 1:
                return frame(name, "Memory.Get", key=key)
            case 2:
                # It comes or not, before the visitor leaves or after: only the schedule itself is owed an answer.
                inner = json.loads(frame(f"{name}-later", "Memory.Get", key=key))
                delay = random.choice((0, 1, 5, 60_000))
                return frame(name, "Timer.Schedule", "command", delay=delay, message=inner)
            case _:
                value = "x" * random.choice((1, 1, 1, 3000))
                return frame(name, "Memory.Set", "command", key=key, value=value)

    # -- what they do --------------------------------------------------------------------------------------------------

    def _ask(self, voice: Voice) -> None:
        """Ask, a few times over, and listen."""
        for _ in range(self._random.choice((1, 1, 5))):
            data, wanted = self._programme(self._random.choice((1, 10, 200)))
            heard = voice.converse(data, wanted)
            self._check(heard, wanted)

    def _time(self, voice: Voice) -> None:
        """Ask politely, one at a time, and look at the clock."""
        for _ in range(20):
            name = self._next()
            self.asked += 1
            start = time.perf_counter()
            self._check(voice.converse(frame(name, "Memory.Get", key="k1"), {name}), {name})
            if len(self.times) < TIMES:
                self.times.append(time.perf_counter() - start)

    def _check(self, heard: Counter[str | None], wanted: set[str]) -> None:
        self.answered += len(wanted)
        doubled = [name for name in wanted if heard[name] != 1]
        if doubled:
            self._concert.fail(f"{len(doubled)} requests were answered more than once, {doubled[0]} for one")

    def _half_close(self, voice: Voice) -> None:
        """Say everything, then listen to the end."""
        data, wanted = self._programme(self._random.choice((1, 10, 50)))
        voice.send(data)
        voice.half_close()
        try:
            text = voice.rest()
        except OSError as error:
            raise Turned from error
        heard = Counter(json.loads(line)["metadata"].get("causation") for line in text.splitlines() if line)
        if self._concert.is_closing:
            return
        self._check(heard, wanted)

    def _vanish(self, voice: Voice) -> None:
        """Say something, perhaps not to its end, and leave without listening."""
        data, _ = self._programme(self._random.choice((1, 10, 100)))
        cut = self._random.randrange(len(data))
        # Nobody listens to the answers: it may well not be taken.
        with suppress(OSError):
            voice.offer(data[:cut])

    def _idle(self, voice: Voice) -> None:
        """Subscribe to everything, take nothing for a while, ask as long as it is taken; then listen, or leave."""
        name = self._next()
        self.asked += 1
        voice.converse(frame(name, "Syscall.Subscribe", "command", types=["*"]), {name})
        data, wanted = self._programme(300)
        sent = 0
        with suppress(OSError):
            while taken := voice.offer(data[sent : sent + 65_536]):
                sent += taken
        if self._random.random() < 0.5:
            self._check(voice.converse(data[sent:], wanted), wanted)
