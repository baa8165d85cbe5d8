"""A node with a journal, in a process that is killed: `run_node` serves it.

Its capabilities write every execution to a ledger, before they do anything else: one line, with one `write` to a file that is only appended to. So what was
executed is known, whatever becomes of the process. And the process can end itself with SIGKILL exactly at a page of its journal.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, final

from bandstand.bus import (
    Capability,
    Command,
    Event,
    NodeConfig,
    RestartLimits,
    Service,
    UnixAdapter,
    serve,
)
from bandstand.errors import RefusedError
from bandstand.journal.page import decode_body
from bandstand.journal.storage import Storage
from bandstand.supervision import Backoff

CHILDREN = 10
"""A command with a number may send commands with the numbers that follow it, fewer than this."""

CONFIG = NodeConfig(
    # A command that is refused by a full mailbox is neither in the journal nor in the ledger.
    mailbox=4096,
    # The least that a client can have in flight, so that answers are forgotten, and the journal says which.
    remember_count=400,
    dead_count=1 << 20,
)

# -- the moment of death -----------------------------------------------------------------------------------------------

Step: TypeAlias = Literal["unwritten", "written", "marked"]
"""Before the page is written; after that, before the mark of the last page; after both, before the node hears of it."""


@final
@dataclass(frozen=True, slots=True)
class Moment:
    """When a process ends itself: at a page with a record of a kind."""

    kind: int
    count: int
    """At which of these pages, from 1 on."""
    step: Step


def end_process() -> None:
    """End this process as nothing else does: no handler runs, nothing is flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def end_at(moment: Moment) -> None:
    """Make this process end itself at a moment."""
    commit, write_mark = Storage.commit, Storage._write_mark  # pyright: ignore[reportPrivateUsage]  # between the two there is no public step
    left = moment.count
    is_now = False

    def commit_or_end(self: Storage, at: int, count: int, body: bytes) -> int:
        nonlocal is_now, left
        left -= any(record.kind == moment.kind for record in decode_body(0, count, body))
        is_now = left == 0
        if is_now and moment.step == "unwritten":
            end_process()
        page = commit(self, at, count, body)
        if is_now:
            end_process()
        return page

    def write_mark_or_end(self: Storage) -> None:
        if is_now and moment.step == "written":
            end_process()
        write_mark(self)

    for name, function in (("commit", commit_or_end), ("_write_mark", write_mark_or_end)):
        setattr(Storage, name, function)


# -- the ledger --------------------------------------------------------------------------------------------------------

_ledger = -1


def note_execution(name: str, number: int) -> None:
    """Write that a command is executed."""
    os.write(_ledger, f"{name} {number}\n".encode())


def read_ledger(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the type and the number of each execution."""
    for line in path.read_text("ascii").splitlines():
        name, number = line.split()
        yield name, int(number)


# -- the capabilities --------------------------------------------------------------------------------------------------

Way: TypeAlias = Literal["answer", "wait", "refuse", "raise", "end"]


class Work(Command[int], type="Worker.Work"):
    """Is executed once, and answers with its number. A `padding` fills the journal."""

    number: int
    way: Way = "answer"
    padding: str = ""


class WorkAgain(Command[int], type="Worker.WorkAgain", retry_safe=True):
    """The same, may be executed again."""

    number: int
    way: Way = "answer"


class Send(Command[int], type="Sender.Send"):
    """Emits an event, and sends `Work` and `WorkAgain`, with the next two numbers."""

    number: int
    way: Way = "answer"


class SendAgain(Command[int], type="Sender.SendAgain", retry_safe=True):
    """The same, may be executed again."""

    number: int
    way: Way = "answer"


class Plan(Command[int], type="Sender.Plan"):
    """Sends `Work` a little later."""

    number: int
    way: Way = "answer"


class PlanAgain(Command[int], type="Sender.PlanAgain", retry_safe=True):
    """The same, may be executed again."""

    number: int
    way: Way = "answer"


class Wait(Command[int], type="Waiter.Wait"):
    """Takes longer than its client waits."""

    number: int


class Sent(Event, type="Sender.Sent"):
    """A command was executed."""

    number: int


class IntentionalError(Exception):
    """Raised on purpose."""


RESTARTS = RestartLimits(max_restarts=1_000_000, backoff=Backoff(initial=0.001, maximum=0.001))


async def go(way: Way) -> None:
    """End a handler, or the process, in some way."""
    match way:
        case "wait":
            await asyncio.sleep(0.01)
        case "refuse":
            raise RefusedError("on purpose")
        case "raise":
            raise IntentionalError
        case "end":
            end_process()
        case "answer":
            pass


class Worker(Capability):
    """Executes commands, one at a time."""

    restarts = RESTARTS

    async def work(self, msg: Work) -> int:
        note_execution(msg.message_type, msg.number)
        await go(msg.way)
        return msg.number

    async def work_again(self, msg: WorkAgain) -> int:
        note_execution(msg.message_type, msg.number)
        await go(msg.way)
        return msg.number


class Sender(Capability):
    """Sends more messages, and executes a few commands at a time."""

    restarts = RESTARTS
    outbound = Sent | Work | WorkAgain
    concurrency = 4

    async def send(self, msg: Send) -> int:
        return await self._send(msg)

    async def send_again(self, msg: SendAgain) -> int:
        return await self._send(msg)

    async def _send(self, msg: Send | SendAgain) -> int:
        note_execution(msg.message_type, msg.number)
        self.bus.emit(Sent(msg.number))
        self.bus.send(Work(msg.number + 1))
        await go(msg.way)
        self.bus.send(WorkAgain(msg.number + 2))
        return msg.number

    async def plan(self, msg: Plan) -> int:
        return await self._plan(msg)

    async def plan_again(self, msg: PlanAgain) -> int:
        return await self._plan(msg)

    async def _plan(self, msg: Plan | PlanAgain) -> int:
        note_execution(msg.message_type, msg.number)
        self.bus.send_later(Work(msg.number + 1), 0.03)
        await go(msg.way)
        return msg.number


class Waiter(Capability):
    """Stops executing a command whose client has disconnected."""

    restarts = RESTARTS
    concurrency = 4
    on_timeout = "cancel"

    async def wait(self, msg: Wait) -> int:
        note_execution(msg.message_type, msg.number)
        await asyncio.sleep(0.2)
        return msg.number


class Listener(Capability):
    """Hears the events."""

    def on_sent(self, msg: Sent) -> None:
        note_execution(msg.message_type, msg.number)


# -- the process -------------------------------------------------------------------------------------------------------


def run_node(folder: str, moment: Moment | None) -> Any:
    """Serve the node until it ends: its journal, its socket and its output are in `folder`."""
    global _ledger  # noqa: PLW0603  # the process has one ledger
    place = Path(folder)
    _ledger = os.open(place / "ledger", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    output = os.open(place / "output", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if moment is not None:
        end_at(moment)
    service = Service(
        load=lambda: [Worker, Sender, Waiter, Listener],
        adapters=[UnixAdapter(str(place / "socket"))],
        config=CONFIG,
        journal=str(place / "journal"),
        is_quiet=True,
    )
    sys.exit(serve(service, None, sys.stderr))
