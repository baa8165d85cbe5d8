"""A shop that is killed with SIGKILL while it charges cards: no card is charged twice, and none is forgotten."""

from __future__ import annotations

import asyncio
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from bandstand.bus import ClientConfig, Connection, Node, connect
from bandstand.bus.durable.records import ANSWER, DATA
from bandstand.errors import RequestFailedError
from bandstand.isolation import isolated
from bandstand.supervision import Backoff
from tests.bus.durable_node import Moment
from tests.bus.step_node import Order, Shop, ask_bank, run_bank, run_shop
from tests.bus.virtual_node import hushed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time(reason="it needs processes that are killed"),
]

PATIENCE = 60.0
ORDERS = 60
KILLS = 9

_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.bus.step_node"])


def start(function: Callable[..., object], *arguments: object) -> Any:
    process = _processes.Process(target=function, args=arguments, daemon=True)
    process.start()
    return process


async def number_of(bus: Connection, letter: str) -> int:
    """Return the number of the order in a dead letter."""
    details: Any = await bus.query("Dead.Show", {"id": letter})
    number: int = details["message"]["data"]["number"]
    return number


async def settle_and_replay(bus: Connection, bank: str) -> dict[int, str]:
    """Do what a person does: look at the bank, settle the steps that are unknown, and replay the commands. Return their replies."""
    replies: dict[int, str] = {}
    while True:
        page: Any = await bus.query("Step.List")
        for step in page["steps"]:
            assert step["state"] == "unknown"
            command, _, name = step["id"].rpartition("/")
            number = await number_of(bus, command)
            receipt = await ask_bank(bank, "find", number)
            if name == "charge" and receipt is not None:
                data = {"outcome": "done", "data": msgspec.to_builtins(receipt)}
            else:
                data = {"outcome": "again"}
            await bus.call("Step.Settle", {"id": step["id"], **data})
        letters: Any = await bus.query("Dead.List", {"type": "Shop.Order"})
        if not letters["letters"]:
            return replies
        for letter in letters["letters"]:
            number = await number_of(bus, letter["id"])
            replayed: Any = await bus.call("Dead.Replay", {"id": letter["id"]})
            if replayed["outcome"] == "replied":
                replies[number] = replayed["answer"]["data"]


@pytest.mark.guarantee("G546", "G541")
@pytest.mark.parametrize("seed", [1, 2])
def test_no_card_is_charged_twice_and_none_is_forgotten(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop], seed: int
) -> None:
    random = Random(seed)
    address, bank_path = f"unix:{tmp_path / 'socket'}", str(tmp_path / "bank")
    config = ClientConfig(
        timeout=2 * PATIENCE,
        window=ORDERS,
        wait=PATIENCE,
        give_up_after=PATIENCE,
        connect_timeout=PATIENCE,
        backoff=Backoff(initial=0.005, maximum=0.04, jitter=0.005),
    )
    replies: dict[int, str] = {}
    faults: Counter[str] = Counter()

    async def order(bus: Connection, number: int) -> None:
        await asyncio.sleep(random.uniform(0, 1))
        frame = await bus.exchange("command", "Shop.Order", {"number": number})
        if frame.kind == "reply":
            replies[number] = msgspec.json.decode(frame.data)
        else:
            faults[frame.type] += 1

    async def place_orders() -> None:
        async with connect(address, config) as bus, asyncio.TaskGroup() as group:
            for number in range(ORDERS):
                group.create_task(order(bus, number))

    async def play() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(place_orders())
            for kill in range(KILLS):
                moment = None
                if kill % 3:
                    kind = DATA if kill % 3 == 1 else ANSWER
                    moment = Moment(
                        kind, random.randint(1, 8), random.choice(["unwritten", "written", "marked"])
                    )
                shop = start(run_shop, str(tmp_path), moment)
                try:
                    # At the moment it ends itself.
                    await asyncio.to_thread(shop.join, random.uniform(0.3, 0.7))
                finally:
                    shop.kill()
                    await asyncio.to_thread(shop.join, PATIENCE)
                assert shop.exitcode == -signal.SIGKILL
            last.append(start(run_shop, str(tmp_path), None))

    last: list[Any] = []
    bank = start(run_bank, str(tmp_path))
    try:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(asyncio.wait_for(play(), 4 * PATIENCE))

            async def finish() -> None:
                async with connect(address, config) as bus:
                    replies.update(await settle_and_replay(bus, bank_path))

            runner.run(asyncio.wait_for(finish(), 2 * PATIENCE))
    finally:
        for process in (*last, bank):
            process.kill()
            process.join(PATIENCE)
    charges = (tmp_path / "ledger").read_text("ascii").split()
    assert Counter(charges) == Counter(str(number) for number in range(ORDERS))
    expected = {
        number: f"parcel {number}, receipt {charges.index(str(number)) + 1}" for number in range(ORDERS)
    }
    assert replies == expected
    assert faults.keys() <= {"Sys.InDoubt", "Sys.ActorCrash"}


@pytest.mark.guarantee("G544")
def test_a_capability_with_a_process_of_its_own_has_no_steps(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def play() -> None:
        async with Node([isolated(Shop)], journal=tmp_path / "journal") as node:
            with pytest.raises(
                RequestFailedError, match="step 'charge': the capability runs in a process of its own"
            ):
                await node.bus.ask(Order(1))

    with hushed(), asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(play(), PATIENCE))
