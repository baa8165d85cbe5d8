"""A client of a node run: `python -m tests.soak.node_client PATH SEED FIRST COUNT`.

It has two connections, and sends batches of requests in no order on both, some of them repeated on the same connection or the other one. Each
line must be answered exactly once, on its connection. After `COUNT` requests, or at SIGTERM, it prints what it has seen as one line of JSON; a client
that is killed prints nothing. It uses sockets and Python only, so that whatever is wrong with the library is wrong on the other side.
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

PATIENCE = float(os.environ.get("CLIENT_PATIENCE", "60"))
"""Seconds within which a batch must be answered, on the busiest machine."""
BATCH = 400
REPEATED = 0.05
"""How many of the requests are repeated."""

COUNTED = b'"type":"Counter.Count","data":{"number":'
ANSWER = re.compile(rb'^\{"kind":"(reply|error)","type":"([A-Za-z.]+)",.*"causation":"([^"]+)"')
TIMES = re.compile(rb'"data":\{"times":(\d+)\}')


class Connection:
    """A connection, with what was sent on it and is not answered yet."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.socket.connect(path)
        self.owed: Counter[bytes] = Counter()
        self.count = 0
        self._rest = b""

    def send(self, lines: list[tuple[bytes, bytes]]) -> None:
        for name, _ in lines:
            self.owed[name] += 1
        self.count += len(lines)
        self.socket.sendall(b"".join(line for _, line in lines))

    def receive(self) -> list[bytes]:
        data = self.socket.recv(1 << 18)
        if not data:
            raise ConnectionError("the node has hung up")
        *lines, self._rest = (self._rest + data).split(b"\n")
        return lines


class Client:
    def __init__(self, path: str, seed: str, first: int, count: int) -> None:
        self._random = Random(seed)
        self._connections = [Connection(path), Connection(path)]
        self._next = first
        self._end = first + count
        self._recent: list[tuple[bytes, bytes]] = []
        self.is_over = False
        self.failures: list[str] = []
        self.seen: Counter[str] = Counter()

    def run(self) -> None:
        while not self.is_over and not self.failures and self._next < self._end:
            self._ask()
        for connection in self._connections:
            connection.socket.shutdown(socket.SHUT_WR)
            if connection.socket.recv(100):
                self.failures.append("an answer came that was not asked for")
            connection.socket.close()

    def _ask(self) -> None:
        """Send one batch in no order, and read all answers."""
        # Not beyond its share: the numbers that follow belong to other clients.
        count = min(self._random.randint(1, BATCH), self._end - self._next)
        fresh = [self._make() for _ in range(count)]
        # Repeat some of the last ones: some are answered already, some are not.
        known = [*self._recent, *fresh]
        again = [each for each in known if COUNTED in each[1] and self._random.random() < REPEATED]
        self._recent = fresh
        lines = [*fresh, *again]
        self._random.shuffle(lines)
        cut = self._random.randint(0, len(lines))
        for connection, part in zip(self._connections, (lines[:cut], lines[cut:]), strict=True):
            connection.send(part)
        self.seen["asked"] += len(lines)
        self.seen["again"] += len(again)
        end = time.monotonic() + PATIENCE
        while any(connection.count for connection in self._connections):
            by_socket = {connection.socket: connection for connection in self._connections}
            ready, _, _ = select.select(list(by_socket), [], [], max(0.0, end - time.monotonic()))
            if not ready:
                missing = [
                    name.decode() for each in self._connections for name in each.owed if each.owed[name]
                ]
                self.failures.append(f"{len(missing)} requests are not answered, {missing[:3]} among them")
                return
            for each in ready:
                self._take(by_socket[each])

    def _take(self, connection: Connection) -> None:
        for line in connection.receive():
            found = ANSWER.match(line)
            if found is None:
                self.failures.append(f"this answers nothing: {line[:300]!r}")
                continue
            kind, type_name, name = found.groups()
            if connection.owed[name] <= 0:
                self.failures.append(f"answered too often, or on the wrong connection: {line[:300]!r}")
                continue
            connection.owed[name] -= 1
            if not connection.owed[name]:
                del connection.owed[name]
            connection.count -= 1
            self.seen["answered"] += 1
            self.seen[f"{kind.decode()} {type_name.decode()}"] += 1
            if (times := TIMES.search(line)) and times[1] != b"1":
                self.seen["handled again"] += 1

    # -- requests ------------------------------------------------------------------------------------------------------------------

    def _make(self) -> tuple[bytes, bytes]:
        """Return the id and the line of a request."""
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
            return b"Sleeper.Sleep", b'{"ms":20}', b',"timeout":5'
        if chance < 0.002:
            return b"Nobody.Home", b"{}", b""
        if chance < 0.004:
            return b"Counter.Count", b'{"way":"none"}', b""
        if chance < 0.006:
            way = self._random.choices((b"answer", b"raise", b"vanish"), (985, 10, 5))[0]
            return b"Isolated.Work", b'{"way":"%s"}' % way, b""
        way = self._random.choices((b"answer", b"raise", b"refuse"), (984, 1, 15))[0]
        return b"Counter.Count", b'{"number":%d,"way":"%s"}' % (number, way), b""


def main() -> int:
    path, seed, first, count = sys.argv[1:]
    client = Client(path, seed, int(first), int(count))

    def stop(*_: Any) -> None:
        client.is_over = True

    signal.signal(signal.SIGTERM, stop)
    try:
        client.run()
    except (OSError, ValueError) as error:
        client.failures.append(f"{error!r} was raised")
    sys.stdout.write(json.dumps({"seen": client.seen, "failures": client.failures[:5]}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
