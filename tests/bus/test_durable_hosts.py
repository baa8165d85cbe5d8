"""What functions, Workers and isolated capabilities send on a node with a journal: it belongs to the answer, as far as that is known."""

# It looks inside: what a process shows is proved elsewhere.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import BufferedWorker, Capability, Command, Contract, Event, Message
from bandstand.bus.durable.records import KIND_NAMES
from bandstand.journal import JournalReader
from bandstand.testing import VirtualClock
from tests.bus.nearby import nearby
from tests.bus.virtual_node import Source, Stage, hushed, play


class Job(Command[None], type="Jobs.Job"):
    """Emits an event, and sends a command; then it does what `then` says."""

    then: str = ""


class Note(Command[None], type="Notes.Note"):
    """Is noted."""


class Begun(Event, type="Jobs.Begun"):
    """A job was begun."""


class Notes(Capability):
    """Notes what arrives, before and after the answer to the job."""

    def __init__(self) -> None:
        self.count = 0

    def note(self, msg: Note) -> None:
        self.count += 1


class Jobs(Capability):
    """Sends from a handler."""

    id = "Jobs"
    outbound = Begun | Note

    async def job(self, msg: Job) -> None:
        self.bus.emit(Begun())
        self.bus.send(Note())
        await go_on(msg.then)


async def go_on(then: str) -> None:
    if then == "wait":
        await asyncio.sleep(10)
    elif then == "raise":
        raise ValueError("by wish")


async def job(msg: Job) -> list[object]:
    """Return all at once."""
    await go_on(msg.then)
    return [Begun(), Message(kind="reply", type="Jobs.Job", data=None)]


async def job_in_steps(message: Message) -> Any:
    """Send the event at once, and the answer later."""
    # Any: a Worker gets what its contract names.
    data: Any = message.data
    yield Begun()
    await go_on(data.then)
    yield Message(kind="reply", type="Jobs.Job", data=None)


def function() -> Source:
    return Contract(id="Jobs", description="x", inbound=Job, outbound=Begun, spawn=lambda: job)


def worker() -> Source:
    return Contract(
        id="Jobs", description="x", inbound=Job, outbound=Begun, spawn=lambda: BufferedWorker(job_in_steps)
    )


def kinds(journal: Path) -> list[list[str]]:
    with JournalReader(journal) as reader:
        pages = [[KIND_NAMES[record.kind] for record in page.records] for page in reader.pages()]
    return [page for page in pages if page != ["boot"]]


def isolated(source: Source) -> Callable[[VirtualClock], Source]:
    return lambda clock: nearby(source, clock)


SOURCES: dict[str, Callable[[VirtualClock], Source]] = {
    "class": lambda _clock: Jobs,
    "function": lambda _clock: function(),
    "worker": lambda _clock: worker(),
    "isolated class": isolated(Jobs),
    "isolated function": isolated(function()),
    "isolated worker": isolated(worker()),
}


@pytest.mark.guarantee("G557")
@pytest.mark.parametrize("name", SOURCES)
def test_what_a_command_sends_is_in_the_page_of_its_answer(tmp_path: Path, name: str) -> None:
    clock = VirtualClock()

    async def act(stage: Stage) -> None:
        listener = stage.connect()
        listener.command("Syscall.Subscribe", {"types": ["Jobs.*"]})
        for then in ("wait", "raise"):
            stage.command("Jobs.Job", {"then": then}, name=then)
            await stage.wait(5000)
            # Nothing is sent yet, or any more.
            assert listener.events("Jobs.Begun") == ([] if then == "wait" else [{}])
            await stage.wait(6000)
            assert listener.events("Jobs.Begun") == [{}]
        stage.reply("wait")
        stage.fault("raise", "Sys.ActorCrash")
        sends_command = "class" in name
        with_answer = [page for page in kinds(tmp_path / "journal") if "event" in page]
        assert with_answer == [["answer", "event", "request"] if sends_command else ["answer", "event"]]
        noted = [page for page in kinds(tmp_path / "journal") if "request" in page]
        assert len(noted) == 2 + sends_command

    with hushed():
        play(act, SOURCES[name](clock), Notes, clock=clock, journal=tmp_path / "journal")


@pytest.mark.guarantee("G557")
def test_what_an_isolated_handler_has_sent_is_dropped_at_its_deadline(tmp_path: Path) -> None:
    clock = VirtualClock()
    source = nearby(Jobs, clock)

    async def act(stage: Stage) -> None:
        stage.command("Jobs.Job", {"then": "wait"}, name="it", timeout=1000)
        await stage.wait(20_000)
        stage.fault("it", "Sys.Timeout")
        written = [kind for page in kinds(tmp_path / "journal") for kind in page]
        assert written.count("request") == 1
        assert "event" not in written
        # The process goes on, and knows that what it has sent has ended.
        (quarters,) = source.host_factory.opened
        assert quarters.other.runtime.upstream._router.internal_credit.used == 0

    with hushed():
        play(act, source, Notes, clock=clock, journal=tmp_path / "journal")
