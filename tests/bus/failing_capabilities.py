"""Capabilities that fail in many ways, for tests of processes. They have a module of their own because processes import it by name."""

from __future__ import annotations

import asyncio
import ctypes
import os
import resource
import signal
import sys
from typing import Any

from msgspec import Struct

from bandstand.bus import BufferedWorker, Capability, Command, Contract, Event, Message, Query, RestartLimits
from bandstand.errors import RefusedError

# Enough for every test, and no waiting.
OFTEN = RestartLimits(max_restarts=1000, period=60, backoff=None)


class Place(Struct):
    pid: int
    handled: int


class Where(Query[Place], type="Mortal.Where"):
    """Which process it is in, and how many messages that has handled."""


class Die(Command[None], type="Mortal.Die"):
    """Begin, and die."""

    how: str


class Hang(Command[None], type="Mortal.Hang"):
    """Begin, and never end."""

    is_deaf: bool = False


class Begun(Event, type="Mortal.Begun"):
    """A handler has begun."""

    pid: int
    what: str


class Ended(Event, type="Mortal.Ended"):
    """It was stopped, in good order."""

    pid: int


class Mortal(Capability):
    """Dies."""

    outbound = Begun | Ended
    restarts = OFTEN

    def __init__(self) -> None:
        self.handled = 0

    async def on_stop(self) -> None:
        await asyncio.sleep(0)
        self.bus.emit(Ended(os.getpid()))

    def where(self, msg: Where) -> Place:
        self.handled += 1
        return Place(os.getpid(), self.handled)

    async def die(self, msg: Die) -> None:
        self.bus.emit(Begun(os.getpid(), msg.how))
        # So that the event has left the process.
        await asyncio.sleep(0.01)
        die(msg.how)

    async def hang(self, msg: Hang) -> None:
        self.bus.emit(Begun(os.getpid(), "hang"))
        await asyncio.sleep(0.01)
        while msg.is_deaf:
            pass
        await asyncio.get_running_loop().create_future()


def die(how: str) -> None:
    match how:
        case "raise":
            raise ValueError("by wish")
        case "sys.exit":
            sys.exit(4)
        case "os._exit":
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "abort":
            os.abort()
        case "memory":
            exhaust()
        case _:
            raise AssertionError(how)


def exhaust() -> None:
    """Take all the memory there may be, in small pieces, so that there is none left even to say so."""
    limit = 160 << 20
    # Not the hard one too: some allocators would have none of it.
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()  # noqa: SIM115  # it is about to die
    resource.setrlimit(resource.RLIMIT_AS, (used + limit, resource.RLIM_INFINITY))
    kept: list[Any] = []
    size = 1 << 20
    while True:
        try:
            while True:
                kept.append(bytes(size))
        except MemoryError:
            if size < 64:
                raise
            size //= 2


# --- others that live on ------------------------------------------------------------------------------------------------------


class Pass(Query[None], type="Door.Pass"):
    """Wait until the door is open."""


class Door(Capability):
    """Keeps people waiting. It is on the node itself."""

    def __init__(self, is_open: asyncio.Event) -> None:
        self._is_open = is_open

    async def enter(self, msg: Pass) -> None:
        await self._is_open.wait()


class Slow(Query[int], type="Slow.Slow"):
    """Which process answers, when the door is open."""


class Bystander(Capability):
    """Has nothing to do with it."""

    id = "Slow"
    outbound = Begun | Pass

    async def slow(self, msg: Slow) -> int:
        self.bus.emit(Begun(os.getpid(), "slow"))
        # However long the others take to die.
        await self.bus.ask(Pass(), timeout=300)
        return os.getpid()


class Ask(Query[Place], type="Asking.Ask"):
    """Ask the mortal one."""


class Remind(Command[str], type="Asking.Remind"):
    """Have something sent later, and perhaps die before."""

    delay_ms: int
    dies: bool = False


class Asking(Capability):
    """Asks."""

    outbound = Where | Hang | Die | Begun
    restarts = OFTEN

    async def ask(self, msg: Ask) -> Place:
        return await self.bus.ask(Where())

    def remind(self, msg: Remind) -> str:
        name = self.bus.send_later(Begun(os.getpid(), "reminded"), msg.delay_ms / 1000)
        if msg.dies:
            raise ValueError("before it was sent")
        return name


class Tell(Command[str], type="Function.Tell"):
    """Say something."""

    text: str


def telling() -> Any:
    def tell(msg: Tell) -> Any:
        if msg.text == "die":
            os._exit(5)
        if msg.text == "no":
            raise RefusedError("not that")
        return Message(kind="reply", type=Tell.message_type, data=f"{msg.text} from {os.getpid()}")

    return tell


class Post(Command[str], type="Posted.Post"):
    """Answer when another one is posted."""

    text: str


def pairing() -> BufferedWorker:
    """Answers each message when the next has come: it must be given several at a time."""
    before: list[Message] = []

    def pair(message: Message) -> Any:
        text = message.data.text
        if text == "die":
            os._exit(6)
        before.append(message)
        if len(before) < 2:
            return None
        answers = [
            Message(kind="reply", type=each.type, data=f"{each.data.text} of 2", metadata=caused_by(each))
            for each in before
        ]
        before.clear()
        return answers

    return BufferedWorker(pair)


def caused_by(message: Message) -> Any:
    from bandstand.bus import Metadata

    assert message.metadata is not None
    return Metadata("", 0, message.metadata.id)


FUNCTION = Contract(
    id="Function",
    description="Tells.",
    inbound=Tell,
    outbound=None,
    spawn=telling,
    restarts=OFTEN,
)
WORKER = Contract(
    id="Posted",
    description="Answers in pairs.",
    inbound=Post,
    outbound=None,
    spawn=pairing,
    restarts=OFTEN,
)


class Never(Query[None], type="Unstartable.Never"):
    """Nobody comes to ask it."""


class Unstartable(Capability):
    """Does not start."""

    restarts = RestartLimits(max_restarts=0)

    def __init__(self, how: str) -> None:
        self.how = how

    def on_start(self) -> None:
        die(self.how)

    def never(self, msg: Never) -> None:
        """Do nothing."""
