"""The deployment of a pod run: actors in pods of all four thread models that pass messages on to each other and fail when they are asked to.

They write everything into the record before they do it, so that it is known even if the process ends.
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
from tests.soak.checks import IntentionalError, UnexpectedRecords
from tests.soak.pod_record import FIRST_ROLE, MOST, ROLES, Count, Record

Failure: TypeAlias = Literal["raise", "exit", "finish", "vanish", "crash"]
Way: TypeAlias = Literal["now", "later", "onward", "decline"]

OFTEN = 1_000_000
DATA_LANE, CONTROL_LANE = 0, 1
ANSWER = 7
INNER_MS = 1000


class DeclinedError(Exception):
    """A declared error: one of the answers."""


class Echo(Actor):
    """Handles messages, passes some of them on, and fails in every way there is."""

    def __init__(self, name: str = "", record: Record | None = None, peers: Directory | None = None) -> None:
        assert record is not None
        assert peers is not None
        self._role = ROLES.index(name)
        self._record = record
        self._peers = peers

    def on_start(self) -> None:
        self._record.add(self._role, Count.STARTED)
        if self._is_process:
            _report_log(self._record)

    @property
    def _is_process(self) -> bool:
        """Whether this is the process of a pod."""
        return os.getpid() != self._record.home

    # -- what it is sent -------------------------------------------------------------------------------------------------------

    @tell
    def note(self, source: int, number: int, hops: int) -> None:
        """Record it, and send another one while there are hops left."""
        self._record.begin(self._role, source, number, DATA_LANE)
        if hops:
            self._pass_on(number, hops - 1)
        self._record.add(self._role, Count.DONE)

    @tell(lane=Lane.CONTROL)
    def urge(self, source: int, number: int) -> None:
        """The same on another lane."""
        self._record.begin(self._role, source, number, CONTROL_LANE)
        self._record.add(self._role, Count.DONE)

    @ask(raises=DeclinedError)
    async def answer(self, source: int, number: int, way: Way) -> int:
        """Answer at once, later, after asking another actor, or with a declared error."""
        self._record.begin(self._role, source, number, DATA_LANE)
        match way:
            case "later":
                await asyncio.sleep(0.001)
            case "onward":
                await self._ask_on(number)
            case "decline":
                self._record.add(self._role, Count.ANSWERED)
                raise DeclinedError(number)
            case "now":
                pass
        self._record.add(self._role, Count.ANSWERED)
        return number + ANSWER

    @ask(lane=Lane.CONTROL)
    def hello(self) -> int:
        """Return the process id."""
        return os.getpid()

    @tell(lane=Lane.CONTROL)
    def end_by(self, way: Failure) -> None:
        """Fail or end in this way."""
        match way:
            case "raise":
                raise IntentionalError
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
        assert self._is_process
        os._exit(9)

    def _crash(self) -> None:
        assert self._is_process
        faulthandler.disable()
        ctypes.string_at(0)

    def _next(self) -> int | None:
        """Return a new number of this role, over all its restarts; None if all are used."""
        number = self._record.add(self._role, Count.SENT)
        return number if number < MOST else None

    def _peer(self, number: int) -> Any:  # whichever it is, it is an actor
        names = [name for name in ROLES if name != ROLES[self._role]]
        return self._peers[names[number % len(names)]]

    def _pass_on(self, number: int, hops: int) -> None:
        mine = self._next()
        if mine is not None:
            # If there is no room, nothing is sent.
            self._peer(number).note.try_send(FIRST_ROLE + self._role, mine, hops)

    async def _ask_on(self, number: int) -> None:
        mine = self._next()
        if mine is None:
            return
        peer = self._peer(number)
        try:
            reply = peer.answer.within(INNER_MS / 1000)(FIRST_ROLE + self._role, mine, "now")
            if (found := await reply) != mine + ANSWER:
                self._record.complain(f"{ROLES[self._role]} has asked {mine} and was answered {found}")
        except BandstandError:
            # The other one may be down, end, or wait for this one.
            return


def _report_log(record: Record) -> None:
    """Record what is logged unexpectedly in the process of a pod."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name in ("bandstand", "asyncio"):
        logger = logging.getLogger(name)
        logger.propagate = False
        logger.addHandler(UnexpectedRecords(record.complain))


class Deployment(Troupe):
    """An actor in a pod of each kind, and two in processes. The layout has their record."""

    cooperative = pod(
        thread=ThreadModel.COOPERATIVE, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Echo)
    dedicated = pod(
        thread=ThreadModel.DEDICATED, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Echo)
    process_a = pod(
        thread=ThreadModel.PROCESS, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Echo)
    process_b = pod(
        thread=ThreadModel.PROCESS, restart=RestartPolicy.ALWAYS, max_restarts=OFTEN, period=1.0
    ).expose(Echo)
    main = pod(thread=ThreadModel.MAIN).expose(Echo)


def layout_for(record: Record, *, has_no_processes: bool) -> dict[str, PodSpec]:
    """Return the declared layout with a record, and optionally with threads instead of processes."""
    layout = Deployment.layout()
    for name, each in layout.items():
        (role,) = each.roles
        thread = (
            ThreadModel.DEDICATED if has_no_processes and each.thread is ThreadModel.PROCESS else each.thread
        )
        mine = replace(role, args=(role.name, record, directory(Directory)))
        layout[name] = replace(each, roles=(mine,), thread=thread)
    return layout
