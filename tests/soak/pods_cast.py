"""Those who play in a circus: one class of artists in pods of all four thread models, who pass messages on to each other, and stumble.

Everything is written into the ledger before it is done, so that it is there when its process is not any more.
"""

from __future__ import annotations

import asyncio
import ctypes
import faulthandler
import logging
import os
import resource
import sys
from dataclasses import replace
from typing import Any, Literal, NoReturn, TypeAlias

from bandstand.actor import Actor, ask, tell
from bandstand.core import Lane
from bandstand.errors import BandstandError
from bandstand.pod import Directory, PodSpec, RestartPolicy, ThreadModel, Troupe, directory, pod
from tests.soak.alarms import ON_PURPOSE, Mishap
from tests.soak.pods_ledger import FIRST_ROLE, MOST, ROLES, Count, Ledger

Stumble: TypeAlias = Literal["raise", "exit", "finish", "vanish", "crash"]
Way: TypeAlias = Literal["now", "later", "onward", "decline"]

OFTEN = 1_000_000
DATA_LANE, CONTROL_LANE = 0, 1
ANSWER = 7
INNER_MS = 1000


class Declined(Exception):  # noqa: N818  # an answer like any other
    """What an artist answers who does not want to."""


class Artist(Actor):
    """Handles what comes, passes some of it on, and fails in every way there is, when it is told to."""

    def __init__(self, name: str = "", ledger: Ledger | None = None, peers: Directory | None = None) -> None:
        assert ledger is not None
        assert peers is not None
        self._role = ROLES.index(name)
        self._ledger = ledger
        self._peers = peers

    def on_start(self) -> None:
        self._ledger.add(self._role, Count.BORN)
        if self._is_alone:
            _listen(self._ledger)

    @property
    def _is_alone(self) -> bool:
        """Whether this is the process of a pod."""
        return os.getpid() != self._ledger.home

    # -- what it is sent -------------------------------------------------------------------------------------------------------

    @tell
    def note(self, source: int, number: int, hops: int) -> None:
        """Write it down, and pass on another one while there are hops left."""
        self._ledger.begin(self._role, source, number, DATA_LANE)
        if hops:
            self._pass_on(number, hops - 1)
        self._ledger.add(self._role, Count.DONE)

    @tell(lane=Lane.CONTROL)
    def urge(self, source: int, number: int) -> None:
        """The same by another lane."""
        self._ledger.begin(self._role, source, number, CONTROL_LANE)
        self._ledger.add(self._role, Count.DONE)

    @ask(raises=Declined)
    async def answer(self, source: int, number: int, way: Way) -> int:
        """Answer at once, later, after having asked somebody else, or with a refusal."""
        self._ledger.begin(self._role, source, number, DATA_LANE)
        match way:
            case "later":
                await asyncio.sleep(0.001)
            case "onward":
                await self._ask_on(number)
            case "decline":
                self._ledger.add(self._role, Count.ANSWERED)
                raise Declined(number)
            case "now":
                pass
        self._ledger.add(self._role, Count.ANSWERED)
        return number + ANSWER

    @ask(lane=Lane.CONTROL)
    def hello(self) -> int:
        """Be there."""
        return os.getpid()

    @tell(lane=Lane.CONTROL)
    def stumble(self, way: Stumble) -> None:
        """Fail, or end, like this."""
        match way:
            case "raise":
                raise Mishap("on purpose")
            case "exit":
                sys.exit(3)
            case "finish":
                self.stop()
            case "vanish":
                self._vanish()
            case "crash":
                self._crash()

    # -- what it does ----------------------------------------------------------------------------------------------------------

    def _vanish(self) -> NoReturn:
        assert self._is_alone
        os._exit(9)

    def _crash(self) -> None:
        assert self._is_alone
        faulthandler.disable()
        ctypes.string_at(0)

    def _next(self) -> int | None:
        """A number of its own, also over all its incarnations; None if all are used."""
        number = self._ledger.add(self._role, Count.SENT)
        return number if number < MOST else None

    def _peer(self, number: int) -> Any:  # whichever it is, it is an artist
        names = [name for name in ROLES if name != ROLES[self._role]]
        return self._peers[names[number % len(names)]]

    def _pass_on(self, number: int, hops: int) -> None:
        mine = self._next()
        if mine is not None:
            # Whoever cannot take it now does without.
            self._peer(number).note.try_send(FIRST_ROLE + self._role, mine, hops)

    async def _ask_on(self, number: int) -> None:
        mine = self._next()
        if mine is None:
            return
        peer = self._peer(number)
        try:
            reply = peer.answer.within(INNER_MS / 1000)(FIRST_ROLE + self._role, mine, "now")
            if (found := await reply) != mine + ANSWER:
                self._ledger.complain(f"{ROLES[self._role]} has asked {mine} and was answered {found}")
        except BandstandError:
            # Whoever was asked may be down, or be ended, or wait for us.
            return


def _listen(ledger: Ledger) -> None:
    """In a process of its own nobody hears what is logged: what is not on purpose goes into the ledger."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in ("bandstand", "asyncio"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.addHandler(_Ear(ledger))


class _Ear(logging.Handler):
    def __init__(self, ledger: Ledger) -> None:
        super().__init__(logging.WARNING)
        self._ledger = ledger

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, ON_PURPOSE):
            return
        if record.name.startswith("bandstand") and error is None:
            return
        self._ledger.complain(f"logged in a process by {record.name}: {record.getMessage()} ({error!r})")


class Circus(Troupe):
    """An artist in a pod of each kind, and two in processes. Their ledger comes with the layout."""

    juggler = pod(
        thread=ThreadModel.COOPERATIVE, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Artist)
    acrobat = pod(
        thread=ThreadModel.DEDICATED, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Artist)
    lion = pod(
        thread=ThreadModel.PROCESS, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Artist)
    tiger = pod(
        thread=ThreadModel.PROCESS, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Artist)
    director = pod(thread=ThreadModel.MAIN).expose(Artist)


def layout_for(ledger: Ledger, *, is_tame: bool) -> dict[str, PodSpec]:
    """The declared layout, with artists who write into this ledger; a tame one has threads where there were processes."""
    layout = Circus.layout()
    for name, each in layout.items():
        (role,) = each.roles
        thread = ThreadModel.DEDICATED if is_tame and each.thread is ThreadModel.PROCESS else each.thread
        mine = replace(role, args=(role.name, ledger, directory(Directory)))
        layout[name] = replace(each, roles=(mine,), thread=thread)
    return layout
