"""What a user of durable steps may write: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import assert_type

from msgspec import Struct

from bandstand.bus import Capability, Command, Done, NodeConfig, Query
from bandstand.errors import RefusedError, StepResultError, StepUnknownError


class Receipt(Struct):
    number: int


class Order(Command[str], type="Shop.Order", retry_safe=True):
    cents: int


class Price(Query[int], type="Shop.Price"):
    pass


async def charge(cents: int) -> Receipt:
    return Receipt(cents)


async def find() -> Done[Receipt] | None:
    return Done(Receipt(1))


def find_now() -> Done[Receipt] | None:
    return None


async def find_order(cents: int) -> Done[Receipt] | None:
    return Done(Receipt(cents))


async def notify() -> None: ...


async def notify_of(cents: int) -> None: ...


def make_id() -> str:
    return ""


async def maybe() -> int | None:
    return None


class Shop(Capability):
    async def order(self, msg: Order) -> str:
        assert_type(await self.step("charge", lambda: charge(msg.cents), returns=Receipt), Receipt)
        assert_type(await self.step("partial", partial(charge, 1)), Receipt)
        assert_type(await self.step("id", make_id), str)
        assert_type(await self.step("lambda", lambda: f"{msg.cents}", returns=str), str)
        assert_type(await self.step("list", lambda: [1], returns=list[int]), list[int])
        assert_type(await self.step("maybe", maybe), int | None)
        assert_type(await self.step("ask", lambda: self.bus.ask(Price()), returns=int), int)
        await self.step("notify", notify)
        await self.step("notify again", lambda: notify_of(msg.cents), returns=None)
        assert_type(await self.step("a", partial(charge, 1), check=find), Receipt)
        assert_type(await self.step("b", partial(charge, 1), check=find_now), Receipt)
        assert_type(await self.step("c", partial(charge, 1), check=lambda: find_order(msg.cents)), Receipt)
        assert_type(await self.step("d", partial(charge, 1), key="today", retry_safe=True), Receipt)
        first, second = await asyncio.gather(self.step("e", make_id), self.step("f", maybe))
        assert_type(first, str)
        assert_type(second, int | None)
        text: str = str(await self.step("g", partial(charge, 1), check=find))
        try:
            number = (await self.step("h", partial(charge, 1))).number
            assert_type(number, int)
        except StepResultError as error:
            assert_type(error.step, str)
        except StepUnknownError as error:
            raise RefusedError(error.step) from error
        return text


NodeConfig(step_keep_for=3600)
