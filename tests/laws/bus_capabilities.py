"""Capabilities in all their forms, which do what the message tells them: for the law of the bus.

An object with methods, a function and two Workers do the same actions, and count the requests in a `Record`.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

from msgspec import Struct, field

from bandstand.bus import (
    BufferedWorker,
    Bus,
    Capability,
    Command,
    Contract,
    ErrorEvent,
    Event,
    Failure,
    Listeners,
    Message,
    MessageEvent,
    Metadata,
    Provision,
    RestartLimits,
    provide,
)
from bandstand.errors import RefusedError, RequestFailedError
from bandstand.supervision import Backoff
from tests.core.support import Boom

POLICY = RestartLimits(max_restarts=3, period=5, backoff=Backoff(initial=0.2, maximum=0.2))
CAP = 8


class Record:
    """How often each request was begun."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.heard = 0
        self.end_itself: Callable[[str], None] = lambda _name: None
        """Ends the actor of a capability, from wherever it is called."""


class Done(Struct):
    token: int
    weight: float = 0.0


class Told(Event, type="Law.Told"):
    token: int
    action: str = ""


class Unheard(Event, type="Law.Unheard"):
    """An event that no capability declares."""


class Declined(Failure, type="Law.Declined"):
    token: int


class Undeclared(Failure, type="Law.Undeclared"):
    token: int


class Act(Command[Done]):
    """What to do. The classes below give it a type."""

    action: str
    token: int
    ms: int = 0
    to: str = ""
    inner: dict[str, Any] = field(default_factory=dict[str, Any])


class Methods(Act, type="Methods.Act"):
    pass


class Function(Act, type="Function.Act"):
    pass


class Buffered(Act, type="Buffered.Act"):
    pass


class Custom(Act, type="Custom.Act"):
    pass


ACTS: dict[str, type[Act]] = {
    "Methods": Methods,
    "Function": Function,
    "Buffered": Buffered,
    "Custom": Custom,
}

PLAIN = (
    "reply",
    "refuse",
    "decline",
    "raise",
    "mistake",
    "nan",
    "undeclared",
    "cancelled",
    "end_itself",
    "emit",
)
SLOW = ("reply_later", "raise_later", "refuse_later", "hang", "cancel", "stubborn", "end_itself_later")
ASKING = ("relay", "relay_apart", "spread")


def act_at_once(name: str, act: Act, record: Record) -> object:
    """Do an action that takes no time; return the reply."""
    match act.action:
        case "refuse":
            raise RefusedError("not today")
        case "decline":
            raise RefusedError(Declined(act.token))
        case "undeclared":
            raise RefusedError(Undeclared(act.token))
        case "raise":
            raise Boom(act.token)
        case "cancelled":
            raise asyncio.CancelledError
        case "mistake":
            return "nothing of the kind"
        case "nan":
            return Done(act.token, math.nan)
        case "end_itself":
            record.end_itself(name)
        case _:
            pass
    return Done(act.token)


async def act_slowly(name: str, act: Act, record: Record) -> object:
    """Do an action that takes time."""
    match act.action:
        case "hang":
            await asyncio.get_running_loop().create_future()
        case "cancel":
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        case "stubborn":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.02)
        case _:
            pass
    await asyncio.sleep(act.ms / 1000)
    match act.action:
        case "raise_later":
            raise Boom(act.token)
        case "refuse_later":
            raise RefusedError("not even later")
        case "end_itself_later":
            record.end_itself(name)
            await asyncio.sleep(0)
        case _:
            pass
    return Done(act.token)


async def asking(bus: Bus, act: Act) -> object:
    """Ask another capability, and reply whatever it answers."""
    asked = ACTS[act.to](**act.inner)

    async def ask() -> None:
        with suppress(RequestFailedError):
            await bus.ask(asked, timeout=act.ms / 1000 or None)

    match act.action:
        case "relay":
            await ask()
        case "relay_apart":
            await asyncio.gather(ask(), ask())
        case _:
            bus.send(asked)
    return Done(act.token)


class MethodCapability(Capability):
    """Does the actions by methods."""

    id = "Methods"
    outbound = Told | Declined | Methods | Function | Buffered | Custom
    restarts = POLICY
    mailbox = CAP

    def __init__(self, record: Record) -> None:
        self._score = record

    def act(self, msg: Methods) -> Done:
        return cast("Done", self._act(msg))  # it does not keep to its word

    def _act(self, msg: Methods) -> object:
        self._score.begun[msg.token] += 1
        if msg.action in ASKING:
            return asking(self.bus, msg)
        if msg.action in SLOW:
            return act_slowly("Methods", msg, self._score)
        if msg.action == "emit":
            self.bus.emit(Told(msg.token))
            self.bus.emit(Told(msg.token))
        if msg.action == "undeclared" and msg.ms:
            self.bus.emit(Unheard())
        return act_at_once("Methods", msg, self._score)

    def told(self, msg: Told) -> None:
        self._score.heard += 1
        if msg.action == "raise":
            raise Boom(msg.token)


def function(name: str, record: Record) -> Callable[[Any], Any]:
    """Return a handler function that does the actions."""

    def said(act: Act, data: object) -> list[object]:
        reply = Message(kind="reply", type=act.message_type, data=data)
        match act.action:
            case "emit":
                return [Told(act.token), reply, Told(act.token)]
            case "twice":
                return [reply, reply]
            case "another":
                return [Message(kind="reply", type="Methods.Act", data=data)]
            case "nothing":
                return []
            case _:
                return [reply]

    async def later(act: Act) -> object:
        return said(act, await act_slowly(name, act, record))

    def handle(message: Any) -> object:
        if isinstance(message, Told):
            record.heard += 1
            return (
                Message(kind="reply", type="Function.Act", data=Done(1))
                if message.action == "reply"
                else None
            )
        record.begun[message.token] += 1
        return later(message) if message.action in SLOW else said(message, act_at_once(name, message, record))

    return handle


class CustomWorker(Listeners):
    """A Worker that answers any request, at any time, any number of times."""

    def __init__(self, record: Record) -> None:
        self._score = record
        self._timers: list[asyncio.TimerHandle] = []
        self._last: str | None = None

    def post_message(self, message: Message, /) -> None:
        if message.kind != "command":
            return
        act, metadata = message.data, message.metadata
        assert metadata is not None
        self._score.begun[act.token] += 1
        delay = act.ms / 1000 if act.action in SLOW else 0.0
        host = asyncio.get_running_loop()
        # One that answers within post_message is one of the ways to do it wrong.
        if act.action == "mistake" and act.ms:
            self._do(act, metadata.id)
        elif act.action != "hang":
            self._timers.append(host.call_later(delay, self._do, act, metadata.id))

    def _do(self, act: Act, name: str) -> None:
        before, self._last = self._last, name
        try:
            done = act_at_once("Custom", act, self._score)
        except BaseException as error:  # noqa: BLE001 -- to be told
            self.dispatch_event(ErrorEvent(error, name))
            return
        match act.action:
            case "raise_later":
                self.dispatch_event(ErrorEvent(Boom(act.token), name))
            case "refuse_later":
                self.dispatch_event(ErrorEvent(RefusedError("no"), name))
            case "another":
                self._reply(done, before or "nobody's")
            case "twice":
                self._reply(done, name)
                self._reply(done, name)
            case "emit":
                self.dispatch_event(MessageEvent(Told(act.token), name))
                self._reply(done, name)
                self.dispatch_event(MessageEvent(Told(act.token), name))
            case "spread":
                self.dispatch_event(MessageEvent(ACTS[act.to](**act.inner), name))
                self._reply(done, name)
            case "nothing":
                pass
            case _:
                self._reply(done, name)

    def _reply(self, data: object, name: str) -> None:
        told = Message(kind="reply", type="Custom.Act", data=data, metadata=Metadata("x", 0, name))
        self.dispatch_event(MessageEvent(told))

    def terminate(self) -> None:
        for timer in self._timers:
            timer.cancel()


def capabilities(record: Record) -> list[Provision | Contract]:
    """Return a class, a function, a `BufferedWorker`, and a custom Worker."""

    def contract(name: str, kind: type[Act], spawn: Callable[[], Any]) -> Contract:
        return Contract(
            id=name,
            description="Does what it is told to.",
            inbound=kind | Told if name == "Function" else kind,
            outbound=Told | Declined | Methods | Function | Buffered | Custom,
            spawn=spawn,
            restarts=POLICY,
            mailbox=CAP,
        )

    def buffered() -> BufferedWorker:
        return BufferedWorker(lambda message: function("Buffered", record)(message.data))

    return [
        provide(MethodCapability, record),
        contract("Function", Function, lambda: function("Function", record)),
        contract("Buffered", Buffered, buffered),
        contract("Custom", Custom, lambda: CustomWorker(record)),
    ]
