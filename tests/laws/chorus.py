"""Who plays in the law of the bus: capabilities in all the forms there are, which do what the message tells them to.

The same deeds are done by an object with methods, by a function and by a Worker. Whatever they do, they write down in the `Score`
that they have begun; what they are up to is for the law to judge.
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


class Score:
    """What everybody sees: which requests were begun with, and how often."""

    def __init__(self) -> None:
        self.begun: Counter[int] = Counter()
        self.heard = 0
        self.suicide: Callable[[str], None] = lambda _name: None
        """Ends the actor of a capability, from wherever it is called."""


class Done(Struct):
    token: int
    weight: float = 0.0


class Told(Event, type="Law.Told"):
    token: int
    deed: str = ""


class Unheard(Event, type="Law.Unheard"):
    """What nobody has declared."""


class Declined(Failure, type="Law.Declined"):
    token: int


class Undeclared(Failure, type="Law.Undeclared"):
    token: int


class Act(Command[Done]):
    """What to do. It has no type of its own: those below have."""

    deed: str
    token: int
    ms: int = 0
    to: str = ""
    inner: dict[str, Any] = field(default_factory=dict[str, Any])


class Solo(Act, type="Solo.Act"):
    pass


class Duo(Act, type="Duo.Act"):
    pass


class Trio(Act, type="Trio.Act"):
    pass


class Quartet(Act, type="Quartet.Act"):
    pass


ACTS: dict[str, type[Act]] = {"Solo": Solo, "Duo": Duo, "Trio": Trio, "Quartet": Quartet}

PLAIN = (
    "reply",
    "refuse",
    "decline",
    "raise",
    "mistake",
    "nan",
    "undeclared",
    "cancelled",
    "suicide",
    "emit",
)
SLOW = ("reply_later", "raise_later", "refuse_later", "hang", "cancel", "stubborn", "suicide_later")
ASKING = ("relay", "relay_apart", "spread")


def plainly(name: str, act: Act, score: Score) -> object:
    """What is done at once, and what is given back for it."""
    match act.deed:
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
        case "suicide":
            score.suicide(name)
        case _:
            pass
    return Done(act.token)


async def slowly(name: str, act: Act, score: Score) -> object:
    """What takes its time."""
    match act.deed:
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
    match act.deed:
        case "raise_later":
            raise Boom(act.token)
        case "refuse_later":
            raise RefusedError("not even later")
        case "suicide_later":
            score.suicide(name)
            await asyncio.sleep(0)
        case _:
            pass
    return Done(act.token)


async def asking(bus: Bus, act: Act) -> object:
    """Ask others, and say whether they have answered. (What they say may be an error: that is no failure of ours.)"""
    asked = ACTS[act.to](**act.inner)

    async def ask() -> None:
        with suppress(RequestFailedError):
            await bus.ask(asked, timeout=act.ms / 1000 or None)

    match act.deed:
        case "relay":
            await ask()
        case "relay_apart":
            await asyncio.gather(ask(), ask())
        case _:
            bus.send(asked)
    return Done(act.token)


class Singer(Capability):
    """Does what it is told to, by methods."""

    id = "Solo"
    outbound = Told | Declined | Solo | Duo | Trio | Quartet
    restarts = POLICY
    mailbox = CAP

    def __init__(self, score: Score) -> None:
        self._score = score

    def act(self, msg: Solo) -> Done:
        return cast("Done", self._act(msg))  # it does not keep to its word

    def _act(self, msg: Solo) -> object:
        self._score.begun[msg.token] += 1
        if msg.deed in ASKING:
            return asking(self.bus, msg)
        if msg.deed in SLOW:
            return slowly("Solo", msg, self._score)
        if msg.deed == "emit":
            self.bus.emit(Told(msg.token))
            self.bus.emit(Told(msg.token))
        if msg.deed == "undeclared" and msg.ms:
            self.bus.emit(Unheard())
        return plainly("Solo", msg, self._score)

    def told(self, msg: Told) -> None:
        self._score.heard += 1
        if msg.deed == "raise":
            raise Boom(msg.token)


def function(name: str, score: Score) -> Callable[[Any], Any]:
    """Does what it is told to, as a function that gives back what is to be said."""

    def said(act: Act, data: object) -> list[object]:
        reply = Message(kind="reply", type=act.message_type, data=data)
        match act.deed:
            case "emit":
                return [Told(act.token), reply, Told(act.token)]
            case "twice":
                return [reply, reply]
            case "another":
                return [Message(kind="reply", type="Solo.Act", data=data)]
            case "nothing":
                return []
            case _:
                return [reply]

    async def later(act: Act) -> object:
        return said(act, await slowly(name, act, score))

    def handle(message: Any) -> object:
        if isinstance(message, Told):
            score.heard += 1
            return Message(kind="reply", type="Duo.Act", data=Done(1)) if message.deed == "reply" else None
        score.begun[message.token] += 1
        return later(message) if message.deed in SLOW else said(message, plainly(name, message, score))

    return handle


class Wild(Listeners):
    """A Worker that answers whom it likes, when it likes, as often as it likes."""

    def __init__(self, score: Score) -> None:
        self._score = score
        self._timers: list[asyncio.TimerHandle] = []
        self._last: str | None = None

    def post_message(self, message: Message, /) -> None:
        if message.kind != "command":
            return
        act, metadata = message.data, message.metadata
        assert metadata is not None
        self._score.begun[act.token] += 1
        delay = act.ms / 1000 if act.deed in SLOW else 0.0
        host = asyncio.get_running_loop()
        # One that answers within post_message is one of the ways to do it wrong.
        if act.deed == "mistake" and act.ms:
            self._do(act, metadata.id)
        elif act.deed != "hang":
            self._timers.append(host.call_later(delay, self._do, act, metadata.id))

    def _do(self, act: Act, name: str) -> None:
        before, self._last = self._last, name
        try:
            done = plainly("Quartet", act, self._score)
        except BaseException as error:  # noqa: BLE001 -- to be told
            self.dispatch_event(ErrorEvent(error, name))
            return
        match act.deed:
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
        told = Message(kind="reply", type="Quartet.Act", data=data, metadata=Metadata("x", 0, name))
        self.dispatch_event(MessageEvent(told))

    def terminate(self) -> None:
        for timer in self._timers:
            timer.cancel()


def chorus(score: Score) -> list[Provision | Contract]:
    """All of them: a class, a function, a ready-made Worker, and a Worker of somebody's own."""

    def contract(name: str, kind: type[Act], spawn: Callable[[], Any]) -> Contract:
        return Contract(
            id=name,
            description="Does what it is told to.",
            inbound=kind | Told if name == "Duo" else kind,
            outbound=Told | Declined | Solo | Duo | Trio | Quartet,
            spawn=spawn,
            restarts=POLICY,
            mailbox=CAP,
        )

    def buffered() -> BufferedWorker:
        return BufferedWorker(lambda message: function("Trio", score)(message.data))

    return [
        provide(Singer, score),
        contract("Duo", Duo, lambda: function("Duo", score)),
        contract("Trio", Trio, buffered),
        contract("Quartet", Quartet, lambda: Wild(score)),
    ]
