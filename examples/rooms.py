"""Chat rooms as typed actors: lanes, asks, a slow guest, and a bug that costs one restart, which the guests do not
notice.

    python examples/rooms.py

A room is a class whose methods are its messages, and it has a bug. So an actor that is too simple to fail keeps the
list of guests, and a room that is restarted asks it. All other actors hold a handle of the supervised child, which
stays valid over restarts.
"""

from __future__ import annotations

import asyncio
import logging
import textwrap
from time import perf_counter

from bandstand import Actor, ActorSystem, Lane, ask, child, tell
from bandstand.core import ExitReason
from bandstand.supervision import SupervisorSpec, spawn_supervisor

START = perf_counter()
MARGIN = 21
SMILEYS = {"tea": "c[_]", "happy": ":-)"}
QUIET_MS = 150


def say(who: str, words: str) -> None:
    lines = textwrap.wrap(words, 118 - MARGIN)
    print(f"{perf_counter() - START:5.2f} s  {who:<11} " + f"\n{'':{MARGIN}}".join(lines), flush=True)


# --- the actors -------------------------------------------------------------------------------------------------------


class Guest(Actor):
    """Listens to a room. Other actors have its handle and call `hear`."""

    def __init__(self, name: str, *, is_silent: bool = False) -> None:
        self.name = name
        self.is_silent = is_silent
        self.heard = 0

    @tell
    def hear(self, line: str) -> None:
        self.heard += 1
        if not self.is_silent:
            say(self.name, f"hears   {line}")

    @ask
    def count(self) -> int:
        return self.heard


class Register(Actor):
    """Knows who is in which room. It is simple and does not fail, so rooms restore their state from it."""

    def __init__(self) -> None:
        self.rooms: dict[str, dict[str, Guest]] = {}

    @tell
    def enter(self, room: str, name: str, guest: Guest) -> None:
        self.rooms.setdefault(room, {})[name] = guest

    @ask
    def guests(self, room: str) -> dict[str, Guest]:
        return dict(self.rooms.get(room, {}))


class Room(Actor):
    """Sends each line to all guests."""

    def __init__(self, name: str, register: Register) -> None:
        self.name = name
        self.register = register
        self.guests: dict[str, Guest] = {}
        self.muted: set[str] = set()

    async def on_start(self) -> None:
        """Messages wait until this has returned, also those that the last incarnation has not handled."""
        self.guests = await self.register.guests(self.name)
        if self.guests:
            say(self.name, f"is back, with {', '.join(self.guests)}")
        self.alarm = self.after(QUIET_MS / 1000, self.notice_silence)

    def on_stop(self, reason: ExitReason, cause: BaseException | None) -> None:
        say(self.name, f"closes  ({reason.name})" if cause is None else f"closes  ({reason.name}: {cause})")

    @tell
    def join(self, name: str, guest: Guest) -> None:
        self.guests[name] = guest
        self.register.enter(self.name, name, guest)

    @tell
    def talk(self, name: str, words: str) -> None:
        if name in self.muted:
            return
        line = f"{name}: {words % SMILEYS}"  # the bug: the text is not a format string
        for guest in self.guests.values():
            # A guest that has left, or is too slow, must not make the room fail or wait.
            guest.hear.try_send(line)
        self.alarm.cancel()
        self.alarm = self.after(QUIET_MS / 1000, self.notice_silence)

    @tell(lane=Lane.CONTROL)
    def mute(self, name: str) -> None:
        """On the CONTROL lane: handled before all lines that wait."""
        self.muted.add(name)
        say(self.name, f"mutes   {name}")

    @ask
    def who(self) -> list[str]:
        return sorted(self.guests)

    def notice_silence(self) -> None:
        say(self.name, f"is quiet, {QUIET_MS} ms without a word")


# --- the evening ------------------------------------------------------------------------------------------------------


class Log(logging.Handler):
    """Prints the log lines of the supervisor without their tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        say("log", record.getMessage())


async def evening(system: ActorSystem) -> None:
    root = spawn_supervisor(system, SupervisorSpec(), name="chat")
    register = root.start_child(child("register").of(Register))
    lobby = root.start_child(child("lobby", keep_mailbox=True).of(Room, "lobby", register))

    ada = system.options(name="ada").spawn(Guest, "ada")
    # A mailbox for two lines: a faster sender loses lines for this guest.
    slow = system.options(name="slow", mailbox=2).spawn(Guest, "slow", is_silent=True)
    lobby.join("ada", ada)
    lobby.join("slow", slow)
    lobby.talk("ada", "good evening %(happy)s")
    say("main", f"asks    who is there? {', '.join(await lobby.who())}")

    for n in range(5):
        lobby.talk("troll", f"spam {n}")
    lobby.mute("troll")
    say("main", f"asks    who is there? {', '.join(await lobby.who())}; no guest has heard the troll")

    lobby.talk("ada", "I am 100% certain that nothing can happen")
    lobby.talk("ada", "or can it? %(tea)s")
    say("main", f"asks    who is there? {', '.join(await lobby.who())}; the same handle")

    for n in range(5):
        lobby.talk("ada", f"quick {n}")
    await lobby.who()
    say("main", f"ada has heard {await ada.count()} lines, slow {await slow.count()}: his mailbox was full")
    await asyncio.sleep(2 * QUIET_MS / 1000)
    print(textwrap.indent(str(system.tree()), " " * MARGIN))


async def main() -> None:
    logger = logging.getLogger("bandstand.supervision")
    logger.addHandler(Log())
    logger.propagate = False
    async with ActorSystem() as system:
        await evening(system)
        asks = system.ask_statistics()
    say(
        "the end",
        f"{asks.asked} asks = {asks.answered} answered + {asks.failed} failed + {asks.pending} pending",
    )
    say("the end", f"{system.statistics().alive} actors are left")


if __name__ == "__main__":
    asyncio.run(main())
