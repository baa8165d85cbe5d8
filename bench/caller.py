"""The client of the bus's cases: a process of its own with plain sockets, the same for every system, so that only servers differ.

    python -m bench.caller requests PATH COUNT WINDOW      lines of JSON, so many of them without an answer
    python -m bench.caller listen PATH COUNT LISTENERS     have events said, and hear all of them on so many connections
    python -m bench.caller http PATH COUNT WINDOW          the same over HTTP, pipelined on 32 connections that are kept
    python -m bench.caller beside PATH COUNT FLOOD         one at a time, beside somebody who sends a flood and never reads

What is sent is made before the clock starts, and what came is looked at when it has stopped: every answer must name its request, and
every event must come once, in its order. Prints a line of JSON: the nanoseconds, how much was sent, and how much of it was answered.
Standard library only: it runs in the peers' environment too.
"""

from __future__ import annotations

import json
import re
import selectors
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from time import perf_counter_ns

from bench import stopwatch

KEYS = 100
VALUES = {f"key-{number}": "hello world" for number in range(KEYS)}
"""What every server knows."""
BURST = 200
"""How many events are said at a time: fewer bytes than a client may leave unread."""
CONNECTIONS = 32
"""Over which requests go by HTTP, if there are so many under way: uvicorn is quicker with some than with one, or with one for each request."""
CHUNK = 1 << 18
PATIENCE = 60
MOMENT = 1767910000000

CAUSATION = re.compile(rb'"kind":"reply"[^\n]*"causation":"([^"]*)"')
NUMBER = re.compile(rb'"kind":"event"[^\n]*"number":(\d+)')


def request(number: int) -> bytes:
    return (
        b'{"kind":"query","type":"Memory.Get","data":{"key":"key-%d"},"metadata":{"id":"%026d","timestamp":%d}}\n'
        % (number % KEYS, number, MOMENT)
    )


def command(name: str, message_id: str, data: object) -> bytes:
    message = {
        "kind": "command",
        "type": name,
        "data": data,
        "metadata": {"id": message_id, "timestamp": MOMENT},
    }
    return json.dumps(message).encode() + b"\n"


def connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(PATIENCE)
    connection.connect(path)
    return connection


def receive(connection: socket.socket) -> bytes:
    data = connection.recv(CHUNK)
    if not data:
        raise ConnectionError("the server has ended the connection")
    return data


def answered(text: bytes, count: int) -> int:
    """How many of the requests have exactly one answer."""
    answers = Counter(CAUSATION.findall(text))
    return sum(answers[b"%026d" % number] == 1 for number in range(count))


def requests(path: str, count: int, window: int) -> tuple[int, int, int]:
    lines = [request(number) for number in range(count)]
    chunks: list[bytes] = []
    got, sent = 0, window
    with connect(path) as connection:
        start = stopwatch.start()
        connection.sendall(b"".join(lines[:window]))
        while got < count:
            data = receive(connection)
            chunks.append(data)
            more = data.count(b"\n")
            got += more
            if sent < count:
                connection.sendall(b"".join(lines[sent : sent + more]))
                sent += more
        elapsed = stopwatch.since(start)
    return elapsed, count, answered(b"".join(chunks), count)


def listen(path: str, count: int, listeners: int) -> tuple[int, int, int]:
    bursts = max(1, count // (listeners * BURST))
    ears = [connect(path) for _ in range(listeners)]
    heard: list[list[bytes]] = [[] for _ in ears]
    for ear in ears:
        ear.sendall(command("Syscall.Subscribe", "subscribe", {"types": ["Speaker.Said"]}))
        receive(ear)
    with connect(path) as speaking, selectors.DefaultSelector() as ready:
        for number, ear in enumerate(ears):
            ready.register(ear, selectors.EVENT_READ, number)
        start = stopwatch.start()
        for turn in range(bursts):
            speaking.sendall(command("Speaker.Say", f"say-{turn}", {"first": turn * BURST, "count": BURST}))
            _hear(ready, ears, heard, listeners * BURST)
            receive(speaking)
        elapsed = stopwatch.since(start)
    for ear in ears:
        ear.close()
    wanted = list(range(bursts * BURST))
    handled = sum(
        len(wanted) for chunks in heard if [int(n) for n in NUMBER.findall(b"".join(chunks))] == wanted
    )
    return elapsed, listeners * len(wanted), handled


def _hear(
    ready: selectors.BaseSelector, ears: Sequence[socket.socket], heard: list[list[bytes]], left: int
) -> None:
    """Listen until so many lines have come, on all connections together."""
    while left > 0:
        found = ready.select(PATIENCE)
        if not found:
            raise TimeoutError(f"{left} events did not come")
        for key, _ in found:
            number: int = key.data
            data = receive(ears[number])
            heard[number].append(data)
            left -= data.count(b"\n")


def http(path: str, count: int, window: int) -> tuple[int, int, int]:
    posts = [_post(request(number).strip()) for number in range(count)]
    bodies: list[bytes] = []
    window = min(window, count)
    lines = [connect(path) for _ in range(min(CONNECTIONS, window))]
    rest = [b""] * len(lines)
    sent = window
    with selectors.DefaultSelector() as ready:
        for place, line in enumerate(lines):
            ready.register(line, selectors.EVENT_READ, place)
        start = stopwatch.start()
        for place, line in enumerate(lines):
            line.sendall(b"".join(posts[place : window : len(lines)]))
        while len(bodies) < count:
            for key, _ in ready.select(PATIENCE):
                number: int = key.data
                come, rest[number] = bodies_of(rest[number] + receive(lines[number]))
                bodies += come
                if come and sent < count:
                    lines[number].sendall(b"".join(posts[sent : sent + len(come)]))
                    sent += len(come)
        elapsed = stopwatch.since(start)
    for line in lines:
        line.close()
    return elapsed, count, answered(b"\n".join(bodies), count)


def _post(body: bytes) -> bytes:
    head = b"POST /messages HTTP/1.1\r\nHost: bench\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


def bodies_of(text: bytes) -> tuple[list[bytes], bytes]:
    """The bodies of the whole responses that a text begins with, and what there is behind them."""
    bodies: list[bytes] = []
    while True:
        head, end, behind = text.partition(b"\r\n\r\n")
        if not end:
            return bodies, text
        if not head.startswith(b"HTTP/1.1 200"):
            raise ConnectionError(f"the server said {head[:80]!r}")
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0])
        if len(behind) < length:
            return bodies, text
        bodies.append(behind[:length])
        text = behind[length:]


def beside(path: str, count: int, flood: int) -> tuple[int, int, int]:
    """What is measured here is not how long all took, but how long 99 of 100 took at most: so many times that."""
    water = memoryview(b"".join(request(number) for number in range(flood)))
    answers: list[bytes] = []
    times: list[int] = []
    with connect(path) as flooder, connect(path) as connection:
        flooder.settimeout(0)
        stopwatch.start()
        for number in range(count):
            water = _pour(flooder, water)
            line = request(number)
            start = perf_counter_ns()
            connection.sendall(line)
            answers.append(receive(connection))
            times.append(perf_counter_ns() - start)
    times.sort()
    return times[count * 99 // 100] * count, count, answered(b"".join(answers), count)


def _pour(flooder: socket.socket, water: memoryview) -> memoryview:
    """Send as much as is taken now; what is left of it."""
    try:
        while water:
            water = water[flooder.send(water[:CHUNK]) :]
    except BlockingIOError:
        pass
    return water


WAYS = {"requests": requests, "listen": listen, "http": http, "beside": beside}


def main(arguments: Sequence[str]) -> int:
    way, path, count, many = arguments
    total, sent, handled = WAYS[way](path, int(count), int(many))
    print(json.dumps({"total": total, "sent": sent, "handled": handled}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
