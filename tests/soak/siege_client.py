"""One of the besiegers: `python -m tests.soak.siege_client PATH SEED FIRST COUNT`.

It has two connections, and asks by both: batches of requests in no order, some of them more than once, by the same connection or the other one.
Each line that it writes is owed exactly one answer, on the connection by which it went. When it has asked `COUNT` times, or is told to stop by SIGTERM, it
prints what it has seen as one line of JSON; one that is killed prints nothing. It knows nothing but sockets and Python: whatever is
wrong with the library is wrong on the other side.
"""

from __future__ import annotations

import json
import os
import re
import select
import signal
import socket
import sys
import time
from collections import Counter
from random import Random
from typing import Any

PATIENCE = float(os.environ.get("SIEGE_PATIENCE", "60"))
"""Seconds within which a batch must be answered, on the busiest machine."""
BATCH = 400
REPEATED = 0.05
"""How many of the requests are said once more."""

NOTE = b'"type":"Ledger.Note","data":{"number":'
ANSWER = re.compile(rb'^\{"kind":"(reply|error)","type":"([A-Za-z.]+)",.*"causation":"([^"]+)"')
TIMES = re.compile(rb'"data":\{"times":(\d+)\}')


class Voice:
    """One connection: what was said by it and is not answered, and what has come and is no line yet."""

    def __init__(self, path: str) -> None:
        self.connection = socket.socket(socket.AF_UNIX)
        self.connection.settimeout(PATIENCE)
        self.connection.connect(path)
        self.owed: Counter[bytes] = Counter()
        self.count = 0
        self._rest = b""

    def say(self, lines: list[tuple[bytes, bytes]]) -> None:
        for name, _ in lines:
            self.owed[name] += 1
        self.count += len(lines)
        self.connection.sendall(b"".join(line for _, line in lines))

    def hear(self) -> list[bytes]:
        data = self.connection.recv(1 << 18)
        if not data:
            raise ConnectionError("the node has hung up")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class Besieger:
    def __init__(self, path: str, seed: str, first: int, count: int) -> None:
        self._random = Random(seed)
        self._voices = [Voice(path), Voice(path)]
        self._next = first
        self._end = first + count
        self._recent: list[tuple[bytes, bytes]] = []
        self.is_over = False
        self.failures: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self.is_over and not self.failures and self._next < self._end:
            self._ask()
        for voice in self._voices:
            voice.connection.shutdown(socket.SHUT_WR)
            if voice.connection.recv(100):
                self.failures.append("something has come that was not asked for")
            voice.connection.close()

    def _ask(self) -> None:
        """One batch, said in no order, and heard to the end."""
        # Not beyond its share: what follows is another's, who would be said to have asked the same.
        count = min(self._random.randint(1, BATCH), self._end - self._next)
        fresh = [self._make() for _ in range(count)]
        # Some of the last ones once more: some are answered already, some are on their way.
        known = [*self._recent, *fresh]
        again = [each for each in known if NOTE in each[1] and self._random.random() < REPEATED]
        self._recent = fresh
        lines = [*fresh, *again]
        self._random.shuffle(lines)
        cut = self._random.randint(0, len(lines))
        for voice, part in zip(self._voices, (lines[:cut], lines[cut:]), strict=True):
            voice.say(part)
        self.seen["asked"] += len(lines)
        self.seen["again"] += len(again)
        end = time.monotonic() + PATIENCE
        while any(voice.count for voice in self._voices):
            connections = {voice.connection: voice for voice in self._voices}
            ready, _, _ = select.select(list(connections), [], [], max(0.0, end - time.monotonic()))
            if not ready:
                missing = [
                    name.decode() for voice in self._voices for name, count in voice.owed.items() if count
                ]
                self.failures.append(f"{len(missing)} requests are not answered, {missing[:3]} among them")
                return
            for connection in ready:
                self._take(connections[connection])

    def _take(self, voice: Voice) -> None:
        for line in voice.hear():
            found = ANSWER.match(line)
            if found is None:
                self.failures.append(f"this answers nothing: {line[:300]!r}")
                continue
            kind, type_name, name = found.groups()
            if voice.owed[name] <= 0:
                self.failures.append(f"answered too often, or on the wrong connection: {line[:300]!r}")
                continue
            voice.owed[name] -= 1
            if not voice.owed[name]:
                del voice.owed[name]
            voice.count -= 1
            self.seen["answered"] += 1
            self.seen[f"{kind.decode()} {type_name.decode()}"] += 1
            if (times := TIMES.search(line)) and times[1] != b"1":
                self.seen["handled again"] += 1

    # -- what it says ------------------------------------------------------------------------------------------------------------------

    def _make(self) -> tuple[bytes, bytes]:
        """One request: its id, and its line."""
        number, self._next = self._next, self._next + 1
        name = f"r{number}".encode()
        type_name, data, more = self._request(number)
        line = (
            b'{"kind":"command","type":"%s","data":%s,"metadata":{"id":"%s","timestamp":1767910000000%s}}\n'
            % (
                type_name,
                data,
                name,
                more,
            )
        )
        return name, line

    def _request(self, number: int) -> tuple[bytes, bytes, bytes]:
        chance = self._random.random()
        if chance < 0.0003:
            return b"Sloth.Nap", b'{"ms":20}', b',"timeout":5'
        if chance < 0.002:
            return b"Nobody.Home", b"{}", b""
        if chance < 0.004:
            return b"Ledger.Note", b'{"way":"none"}', b""
        if chance < 0.006:
            way = self._random.choices((b"answer", b"raise", b"vanish"), (985, 10, 5))[0]
            return b"Hermit.Live", b'{"way":"%s"}' % way, b""
        way = self._random.choices((b"answer", b"raise", b"refuse"), (984, 1, 15))[0]
        return b"Ledger.Note", b'{"number":%d,"way":"%s"}' % (number, way), b""


def main() -> int:
    path, seed, first, count = sys.argv[1:]
    besieger = Besieger(path, seed, int(first), int(count))

    def stop(*_: Any) -> None:
        besieger.is_over = True

    signal.signal(signal.SIGTERM, stop)
    try:
        besieger.run()
    except (OSError, ValueError) as error:
        besieger.failures.append(f"{error!r} came out")
    sys.stdout.write(json.dumps({"seen": besieger.seen, "failures": besieger.failures[:5]}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
