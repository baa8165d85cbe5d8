"""Message classes, and an actor that handles them."""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.actor import MessageActor, Request, on, tell
from bandstand.core import Lane


@dataclass
class Deposit:
    amount: int


@dataclass
class BigDeposit(Deposit):
    """Has no handler of its own."""


@dataclass
class Bonus(Deposit):
    """Has a handler of its own."""


class Close:
    pass


@dataclass
class Balance(Request[int]):
    times: int = 1


@dataclass
class Fail(Request[None]):
    error: Exception


class Stranger:
    pass


class Account(MessageActor[Deposit | Bonus | Close | Balance | Fail]):
    def __init__(self, lines: list[str] | None = None) -> None:
        self.balance = 0
        self.lines: list[str] = [] if lines is None else lines

    @on(Deposit)
    def deposit(self, message: Deposit) -> None:
        self.lines.append(type(message).__name__)
        self.balance += message.amount

    @on(Bonus, lane=Lane.MANAGEMENT)
    async def bonus(self, message: Bonus) -> None:
        self.lines.append("bonus")
        self.balance += 2 * message.amount

    @on(Close, lane=Lane.CONTROL)
    def close(self, message: Close) -> None:
        self.lines.append("close")

    @on(Balance)
    def answer(self, message: Balance) -> int:
        return self.balance * message.times

    @on(Fail, raises=LookupError)
    async def fail(self, message: Fail) -> None:
        raise message.error

    @tell
    def also(self, line: str) -> None:
        self.lines.append(line)
