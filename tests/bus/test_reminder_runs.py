"""Random runs of reminders: changes, jumps of the clock, restarts and crashes, compared with a model; and a node that is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus import Node
from bandstand.bus.durable.records import REQUEST, read_line, read_request
from bandstand.bus.reminders.capability import ListReminders
from bandstand.core.asyncio_host import new_event_loop
from bandstand.isolation import isolated
from bandstand.journal import JournalReader
from tests.bus.test_reminders import MINUTE, NOON, Ask, Diary, Forget, S, World
from tests.bus.virtual_node import Stage

Missed: TypeAlias = Literal["one", "all", "none"]
STEP = 10 * S
"""Ticks are at multiples of this, and everything else happens three seconds later."""


# -- the model ---------------------------------------------------------------------------------------------------------


@dataclass
class Modelled:
    """A reminder of the model."""

    name: str
    period: int
    """In steps; 0 for one tick."""
    due: int
    missed: Missed
    number: int


@dataclass
class Model:
    """What must be sent, tick by tick, without any arithmetic."""

    reminders: dict[str, Modelled] = field(default_factory=dict[str, Modelled])
    highest: int = 0
    sent: Counter[str] = field(default_factory=Counter[str])

    def set(self, name: str, period: int, due: int, missed: Missed) -> None:
        before = self.reminders.get(name)
        if before is not None and (before.period, before.missed) == (period, missed) and period:
            return
        number = self.highest if before is None else before.number
        self.reminders[name] = Modelled(name, period, due, missed, number)

    def cancel(self, name: str) -> None:
        gone = self.reminders.pop(name, None)
        if gone is not None:
            self.highest = max(self.highest, gone.number)

    def look(self, now: int) -> None:
        """It is now that the node looks at what is due."""
        for each in sorted(self.reminders.values(), key=lambda each: (each.due, each.name)):
            ticks: list[int] = []
            while each.due <= now:
                ticks.append(each.due)
                if not each.period:
                    break
                each.due += each.period * STEP
            if each.missed == "one":
                ticks = ticks[:1]
            elif each.missed == "none":
                ticks = [tick for tick in ticks if tick >= now - MINUTE][:1]
            for _ in ticks:
                each.number += 1
                self.sent[f"node/{each.name}/{each.number}"] += 1
            if not each.period and each.due <= now:
                self.cancel(each.name)


Step: TypeAlias = tuple[Any, ...]
NAMES = st.sampled_from("abc")
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.one_of(
        st.tuples(
            st.just("set"), NAMES, st.sampled_from([0, 1, 2, 5]), st.integers(1, 9), st.sampled_from(["one", "all", "none"])
        ),
        st.tuples(st.just("cancel"), NAMES),
        st.tuples(st.just("wait"), st.integers(1, 12)),
        st.tuples(st.just("jump"), st.integers(-12, 12)),
        st.tuples(st.just("stop"), st.integers(-5, 12)),
        st.tuples(st.just("crash"), st.integers(-5, 12)),
    ),
    max_size=14,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.guarantee("G525", "G528", "G529", "G531")
@given(steps=STEPS)
@settings(max_examples=40)
def test_what_is_sent_is_what_the_model_says(steps: list[Step]) -> None:
    with TemporaryDirectory() as directory:
        run(World(Path(directory)), steps)


def run(world: World, steps: list[Step]) -> None:
    Diary.notes.clear()
    model = Model()
    left = list(steps)
    world.set_clock(3 * S)

    async def act(stage: Stage) -> None:
        await wait(stage, 1)
        while left and left[0][0] not in {"stop", "crash"}:
            await take(stage, left.pop(0))
        await wait(stage, 1)

    async def wait(stage: Stage, count: int) -> None:
        for _ in range(count):
            # What is due now; then what comes due at the multiple.
            model.look(world.now_ms)
            await stage.wait(6 * S)
            assert Counter(Diary.notes) == model.sent, (Diary.notes, model)
            await stage.wait(4 * S)
            model.look(world.now_ms)
            assert Counter(Diary.notes) == model.sent, (Diary.notes, model)

    async def take(stage: Stage, step: Step) -> None:
        match step:
            case ("set", name, period, ahead, missed):
                at = (world.now_ms // STEP + ahead) * STEP
                times = {"at": iso(at)} if not period else {"every": period * STEP, "at": iso(NOON)}
                await stage.client.reply_to(
                    "command",
                    "Reminder.Set",
                    {"name": name, "command": "Diary.Note", "missed": missed, **times},
                    name=f"{world.now_ms}-{len(left)}",
                )
                if period:
                    at = NOON
                    while at <= world.now_ms:
                        at += period * STEP
                model.set(name, period, at, missed)
            case ("cancel", name):
                await stage.client.reply_to(
                    "command", "Reminder.Cancel", {"name": name}, name=f"{world.now_ms}-{len(left)}"
                )
                model.cancel(name)
            case ("wait", count):
                await wait(stage, count)
            case ("jump", count):
                world.set_clock(count * STEP)
                await wait(stage, 1)
            case _:
                raise AssertionError(step)

    while True:
        is_crash = bool(left) and left[0][0] == "crash"
        world.play(act, is_crash=any(step[0] == "crash" for step in left[:1]) or is_crash)
        # `act` has come to a stop, or to the end.
        if not left:
            break
        _, count = left.pop(0)
        world.set_clock(count * STEP)
        # The start of a node takes no time of the virtual clock; that of its first look is three seconds behind a multiple again.
        world.set_clock((3 * S - world.now_ms) % STEP)


def iso(moment: int) -> str:
    seconds, ms = divmod(moment, S)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{ms:03}Z"


# -- a node that is killed -----------------------------------------------------------------------------------------------

MODULE = '''
import os

from bandstand.bus import Capability, Command


class Tick(Command[None], type="Ledger.Tick", retry_safe=True):
    """Write a line."""


class Once(Command[None], type="Ledger.Once"):
    """Write a line, and not again."""


class Ledger(Capability):
    """Writes the ids of commands to a file."""

    outbound = Tick | Once

    def on_start(self) -> None:
        self.file = os.open("ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.bus.remind("all", Tick(), every=1, missed="all")
        self.bus.remind("once", Once(), every=1, missed="one")

    def tick(self, msg: Tick) -> None:
        os.write(self.file, f"{self.bus.message.id}\\n".encode())

    def once(self, msg: Once) -> None:
        os.write(self.file, f"{self.bus.message.id}\\n".encode())
'''


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.real_time(reason="it needs processes that are killed, and reminders that are due")
@pytest.mark.guarantee("G531")
def test_a_node_that_is_killed_again_and_again_sends_every_tick_once(tmp_path: Path) -> None:
    (tmp_path / "ledger.py").write_text(MODULE)
    random = Random(1)
    ledger = tmp_path / "ledger"
    begin = time.time()
    for _ in range(5):
        with start(tmp_path) as node:
            seen = ledger.read_text().count("\n") if ledger.exists() else 0
            # Until it has sent something; and then at any moment, also in the middle of a page.
            wait_for(lambda seen=seen: ledger.exists() and ledger.read_text().count("\n") > seen)
            time.sleep(random.uniform(0, 1.2))
            os.kill(node.pid, signal.SIGKILL)
    with start(tmp_path) as node:
        due = int(time.time() - begin)
        # It sends what is due before it listens.
        wait_for(lambda: is_listening(tmp_path / "s"))
        wait_for(
            lambda: any(
                f"Ledger/all/{due}\n" in line for line in ledger.read_text().splitlines(keepends=True)
            )
        )
        # From a shell.
        words = ["name=tea", "command=Ledger.Tick", "cron=0 22 * * *", "timezone=Europe/Berlin"]
        answer = run_command(tmp_path, "call", "Reminder.Set", *words, "--to", "unix:s")
        assert '"name": "tea"' in answer
        answer = run_command(
            tmp_path, "call", "Reminder.Set", "name=egg", "command=Ledger.Tick", "after=90s", "--to", "unix:s"
        )
        assert '"name": "egg"' in answer
        assert '"count": 4' in run_command(tmp_path, "call", "Reminder.List", "--to", "unix:s")
        node.terminate()
        assert node.wait(30) == 0
    assert "set node/tea cron '0 22 * * *' Europe/Berlin, next 20" in run_command(
        tmp_path, "log", "find", "--kind", "data", "--journal", "journal"
    )
    numbers: dict[str, list[int]] = {"all": [], "once": []}
    for name in requests(tmp_path / "journal"):
        _, kind, number = name.split("/")
        numbers[kind].append(int(number))
    executed = Counter(ledger.read_text().split())
    # One request for each tick, without a gap; and those that must not be executed again were not.
    for kind, found in numbers.items():
        assert found == list(range(1, len(found) + 1)), kind
    assert len(numbers["all"]) >= due
    assert set(executed) <= {f"Ledger/{kind}/{number}" for kind, found in numbers.items() for number in found}
    assert all(executed[f"Ledger/all/{number}"] >= 1 for number in numbers["all"][:due])
    assert all(count == 1 for name, count in executed.items() if "once" in name)


def run_command(folder: Path, *words: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-m", "bandstand", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def start(folder: Path) -> Generator[subprocess.Popen[bytes]]:
    """Run a node, and kill it at the end, if it has not ended."""
    command = [sys.executable, "-m", "bandstand", "serve", "ledger.py", "--unix", "s", "--journal", "journal"]
    with (
        (folder / "output").open("ab") as output,
        subprocess.Popen(command, cwd=folder, stdout=output, stderr=output) as node,
    ):
        try:
            yield node
        finally:
            node.kill()


def is_listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def wait_for(is_done: Any) -> None:
    until = time.monotonic() + 90
    while not is_done():
        assert time.monotonic() < until
        time.sleep(0.01)


def requests(journal: Path) -> list[str]:
    """The ids of the commands of reminders, each request once."""
    found: dict[int, str] = {}
    with JournalReader(journal) as reader:
        for page in reader.pages():
            for record in page.records:
                if record.kind == REQUEST:
                    request = read_request(record.data)
                    found[request.number] = read_line(REQUEST, request.line).metadata.id
    return [name for name in found.values() if name.startswith("Ledger/")]


# -- a capability in a process of its own --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.real_time(reason="a real process starts")
@pytest.mark.skipif(sys.platform != "linux", reason="processes as Linux has them")
@pytest.mark.guarantee("G526")
def test_a_capability_in_a_process_of_its_own_has_reminders(tmp_path: Path) -> None:
    async def main() -> None:
        async with Node([isolated(Diary)], journal=tmp_path / "journal") as node:

            async def listed(count: int) -> list[str]:
                async with asyncio.timeout(60):
                    while True:
                        found = (await node.bus.ask(ListReminders())).reminders
                        if len(found) == count:
                            return [f"{each.owner}/{each.name} {each.command} {each.every}" for each in found]
                        await asyncio.sleep(0.01)

            await node.bus.ask(Ask(name="a", every=100))
            assert await listed(1) == ["Diary/a Diary.Note 100000"]
            await node.bus.ask(Forget(name="a"))
            assert await listed(0) == []

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main())
