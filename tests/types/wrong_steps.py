"""What a user of durable steps must not write: both checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from functools import partial

from msgspec import Struct

from bandstand.bus import Capability, Command, Done, NodeConfig
from bandstand.bus.step_capability import ForgetSteps, ListSteps, SettleStep, ShowStep


class Receipt(Struct):
    number: int


class Order(Command[str], type="Shop.Order", retry_safe=True):
    cents: int


async def charge(cents: int) -> Receipt:
    return Receipt(cents)


async def find() -> Done[str] | None:
    return Done("")


async def find_plainly() -> Receipt | None:
    return None


def make_id() -> str:
    return ""


class Shop(Capability):
    async def order(self, msg: Order) -> str:
        number: int = await self.step("a", partial(charge, 1))  # E:
        text: str = await self.step("b", lambda: charge(msg.cents), returns=Receipt)  # E:
        count: int = await self.step("c", make_id)  # E:
        other: Receipt = await self.step("d", partial(charge, 1), returns=str)  # E:
        await self.step("e", charge)  # E:
        await self.step("f", charge(1))  # E:
        await self.step("g")  # E:
        await self.step(5, make_id)  # E:
        await self.step("h", make_id, key=5)  # E:
        await self.step("i", make_id, retry_safe="yes")  # E:
        await self.step("j", make_id, retrysafe=True)  # E:
        await self.step("k", make_id, "today")  # E:
        found: Receipt = await self.step("l", partial(charge, 1), check=find)  # E:
        await self.step("m", partial(charge, 1), check=find_plainly)  # E:
        await self.step(name="n", function=make_id)  # E:
        amount = (await self.step("o", partial(charge, 1))).amount  # E:
        return number, text, count, other, found, amount  # E:


Done()  # E:
SettleStep("a/b", "failed")  # E:
SettleStep("a/b", "done", scope="other")  # E:
ShowStep(5)  # E:
ListSteps(state="open")  # E:
ForgetSteps()  # E:
NodeConfig(step_keep_for="a week")  # E:
