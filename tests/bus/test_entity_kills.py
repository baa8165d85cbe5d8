"""A node with entities that is killed with SIGKILL: every answer that was given is in the state, and nothing is there twice.

Each command adds its own number to its account, which answers with how many it has.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from bandstand.bus import (
    ClientConfig,
    Command,
    Connection,
    Decision,
    Entity,
    NodeConfig,
    Query,
    Service,
    UnixAdapter,
    connect,
    serve,
)
from bandstand.bus.durable.records import ANSWER, CHECKPOINT, REQUEST
from bandstand.persistence.records import ENTITY_EVENT, ENTITY_SNAPSHOT
from tests.bus.durable_node import Moment, end_at

pytestmark = [
    pytest.mark.slow,
    pytest.mark.once,
    pytest.mark.real_time(reason="it needs processes that are killed"),
]

_processes = multiprocessing.get_context("forkserver")
KEYS = ("a", "b", "c")


class Add(Command[int], type="Numbers.Add"):
    """Add a number."""

    key: str
    number: int
    padding: str = ""


class List(Query[list[int]], type="Numbers.List"):
    """List the numbers, in the order in which they were added."""

    key: str


class Added(Struct, frozen=True):
    number: int


class State(Struct):
    numbers: list[int]


class Numbers(Entity[Added], key="key"):
    """Keeps numbers."""

    snapshot_every = 7
    max_in_memory = 2

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, msg: Add) -> Decision[int]:
        return self.decide(len(self.numbers) + 1, Added(msg.number))

    def list(self, msg: List) -> list[int]:
        return self.numbers

    def apply(self, event: Added) -> None:
        self.numbers.append(event.number)

    def snapshot(self) -> State:
        return State(list(self.numbers))

    def restore(self, state: State) -> None:
        self.numbers = state.numbers


def run_node(folder: str, moment: Moment | None) -> Any:
    """Serve the node until it ends."""
    output = os.open(f"{folder}/output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if moment is not None:
        end_at(moment)
    service = Service(
        load=lambda: [Numbers],
        adapters=[UnixAdapter(f"{folder}/socket")],
        config=NodeConfig(mailbox=4096, journal_keep_bytes=1 << 20),
        journal=f"{folder}/journal",
        is_quiet=True,
    )
    sys.exit(serve(service, None, sys.stderr))


MOMENTS = [
    Moment(REQUEST, 3, "unwritten"),
    Moment(ENTITY_EVENT, 2, "unwritten"),
    Moment(ENTITY_EVENT, 9, "written"),
    Moment(ENTITY_EVENT, 5, "marked"),
    Moment(ANSWER, 4, "marked"),
    Moment(ENTITY_SNAPSHOT, 1, "unwritten"),
    Moment(ENTITY_SNAPSHOT, 2, "marked"),
    Moment(CHECKPOINT, 1, "marked"),
]


class Clients:
    """What clients have sent, and what was answered."""

    def __init__(self, folder: Path) -> None:
        self.address = f"unix:{folder}/socket"
        self.answers: dict[str, Counter[int]] = {key: Counter() for key in KEYS}
        self.is_over = False
        self.padding = ""
        self.number = 0

    def connect(self) -> Connection:
        return connect(self.address, config=ClientConfig(wait=60))

    async def add(self, bus: Connection, key: str) -> None:
        while not self.is_over:
            self.number += 1
            number = self.number
            count = await bus.call(Add(key, number, self.padding), timeout=120)
            # A second answer for the same number of commands would be one that was forgotten.
            self.answers[key][count] += 1

    async def run(self) -> None:
        async with self.connect() as bus:
            await asyncio.gather(*[self.add(bus, key) for key in KEYS for _ in range(4)])


@pytest.mark.guarantee("G524")
def test_every_answer_is_in_the_state_after_kills(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def play() -> dict[str, list[int]]:
        clients = Clients(tmp_path)
        running = asyncio.create_task(clients.run())
        found: dict[str, list[int]] = {}
        for moment in [*MOMENTS, None]:
            clients.padding = "x" * 20_000 if moment is not None and moment.kind == CHECKPOINT else ""
            process = _processes.Process(target=run_node, args=(str(tmp_path), moment), daemon=True)
            process.start()
            try:
                if moment is not None:
                    await asyncio.to_thread(process.join, 90)
                    assert process.exitcode == -signal.SIGKILL, (moment, process.exitcode)
                    continue
                clients.is_over = True
                await running
                async with clients.connect() as bus:
                    found = {key: await bus.query(List(key)) for key in KEYS}
                process.terminate()
                await asyncio.to_thread(process.join, 60)
                assert process.exitcode == 0
            finally:
                process.kill()
                process.join(60)
        for key, numbers in found.items():
            answers = clients.answers[key]
            # Each was added once, and each has got an answer of its own.
            assert len(set(numbers)) == len(numbers)
            assert answers == Counter(range(1, len(numbers) + 1))
        assert sum(map(len, found.values())) == clients.number
        return found

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        found = runner.run(play())
    assert min(map(len, found.values())) > 3
