"""Capabilities, declared well and badly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from bandstand.bus.contracts.capability import Capability, RestartLimits
from bandstand.bus.contracts.messages import Command, Event, Query
from bandstand.bus.scheduler import Schedule
from bandstand.bus.syscall import HealthTick
from tests.bus.envelopes import (
    Changed,
    Clear,
    Get,
    Names,
    NotFound,
    OpenType,
    Pair,
    Set,
    SetDict,
    SetMessage,
    SetReply,
    Value,
)
from tests.bus.models import Order, OrderPlaced, PlaceOrder

if TYPE_CHECKING:
    from tests.bus.envelopes import Tagged


class Memory(Capability):
    """Keeps values
    by key.

    And more, which nobody is told.
    """

    outbound = Changed | NotFound

    def set(self, msg: Set) -> None:
        """Not this: the message has a docstring of its own."""

    async def get(self, msg: Get) -> Value:
        return Value(None)

    def clear(self, msg: Clear) -> int:
        """Forget everything."""
        return 0

    def on_changed(self, msg: Changed) -> None: ...

    # No handlers: helpers, private things, other parameters.

    def total(self) -> int:
        return 0

    def weigh(self, pair: Pair) -> int:
        return 0

    def _hidden(self, msg: Names) -> list[str]:
        return []

    @staticmethod
    def double(number: int) -> int:
        return number

    @property
    def size(self) -> int:
        return 0


class Kept(Memory):
    id = "Kept.Memory"
    restarts = RestartLimits(max_restarts=1)
    mailbox = 7
    timeout = 0.05

    def get(self, msg: Get, trace: bool = False) -> Value:  # type: ignore[override]  # a default is no hindrance  # pyright: ignore[reportIncompatibleMethodOverride]
        return Value(1)


class Whole(Capability):
    """Takes whole messages."""

    outbound = Schedule | OrderPlaced

    def set(self, msg: SetMessage | SetDict) -> Value:
        return Value(1)

    def place(self, msg: PlaceOrder) -> Order:
        raise NotImplementedError

    def tick(self, msg: HealthTick) -> NoReturn:
        raise NotImplementedError


class Both(Capability):
    """One handler for two messages."""

    def either(self, msg: Get | Names) -> Value | list[str]:
        return Value(None)

    def whatever(self, msg: Clear) -> Any:
        return 1

    def never(self, msg: Set) -> NoReturn:
        raise NotImplementedError


class SubValue(Value):
    more: int = 0


class Narrower(Capability):
    """Returns more than it must."""

    def get(self, msg: Get) -> SubValue:
        return SubValue(1)


class Annotated(Capability):
    """Says nothing about its replies."""

    def get(self, msg: Get):  # type: ignore[no-untyped-def]  # noqa: ANN201, RUF100  # on purpose
        return Value(1)

    def clear(self, msg: Clear):  # type: ignore[no-untyped-def]  # noqa: ANN201, RUF100  # on purpose
        return None


class NeedsArguments(Capability):
    """Is made with an argument."""

    def __init__(self, greeting: str) -> None:
        self.greeting = greeting

    def get(self, msg: Get) -> Value:
        return Value(None)


# --- what is refused --------------------------------------------------------------------------------------------------


class Undocumented(Capability):
    def get(self, msg: Get) -> Value:
        return Value(None)


class Twice(Capability):
    """Two handlers."""

    def one(self, msg: Set) -> None: ...
    def two(self, msg: SetMessage) -> None: ...


class WrongReply(Capability):
    """Another reply."""

    def get(self, msg: Get) -> int:
        return 0


class MaybeReply(Capability):
    """A reply that may be missing."""

    def get(self, msg: Get) -> Value | None:
        return None


class NoReply(Capability):
    """No reply."""

    def get(self, msg: Get) -> None: ...


class AnsweringEvent(Capability):
    """An answer to an event."""

    def changed(self, msg: Changed) -> int:
        return 0


class MessageReply(Capability):
    """A whole message as the reply."""

    def set(self, msg: SetMessage) -> SetReply:
        raise NotImplementedError


class TwoParameters(Capability):
    """Wants more."""

    def get(self, msg: Get, now: int) -> Value:
        return Value(now)


class ByKeyword(Capability):
    """Wants it by keyword."""

    def get(self, *, msg: Get) -> Value:
        return Value(None)


class Unresolved(Capability):
    """An import for type checking only."""

    def tagged(self, msg: Tagged) -> None: ...


class Open(Capability):
    """An open type."""

    def any(self, msg: OpenType) -> None: ...


class BadPayload(Capability):
    """A reply that JSON does not have."""

    def clear(self, msg: Clear) -> complex:
        return 0j


class ReplyOutbound(Capability):
    """A reply in its outbound."""

    outbound = SetReply

    def get(self, msg: Get) -> Value:
        return Value(None)


class Empty(Capability):
    """Nothing."""

    def get(self, key: str) -> Value:
        return Value(None)


class Fault(Event, type="Sys.Trouble"):
    pass


class Saying(Capability):
    """Says what only the runtime says."""

    outbound = Fault


class TimerFired(Event, type="Timer.Fired"):
    pass


class SayingTimer(Capability):
    """Says what only a built-in says."""

    outbound = TimerFired


class Nap(Command[None], type="Timer.Nap"):
    pass


class Clock(Capability):
    """Handles what only a built-in handles."""

    outbound = TimerFired

    def nap(self, msg: Nap) -> None: ...


class Panic(Query[None], type="Sys.Panic"):
    pass


class Kernel(Capability):
    """Handles what nobody handles."""

    def panic(self, msg: Panic) -> None: ...


class Answering(Capability):
    """Takes errors."""

    def error(self, msg: NotFound) -> None: ...


class BadId(Capability):
    """A bad id."""

    id = "no words"

    def get(self, msg: Get) -> Value:
        return Value(None)


class BadCap(Memory):
    mailbox = 0


class BadTimeout(Memory):
    timeout = 1000000000


class BadPolicy(Memory):
    restarts = 3  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]  # on purpose
