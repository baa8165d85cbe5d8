"""The actors of the ticket office, without the web: they do not need it."""

from __future__ import annotations

import pytest

from bandstand import ActorSystem
from bandstand.testing import VirtualClock
from examples.fastapi.office import Change, NoSuchTicketError, Office, SoldOutError, open_office


async def pass_time(clock: VirtualClock, office: Office, ms: float) -> None:
    clock.advance(ms / 1000)
    # What is due becomes a message in this tick; it is handled when the next question is.
    await office.free()


async def test_a_seat_that_is_not_paid_in_time_is_free_again() -> None:
    clock = VirtualClock()
    async with ActorSystem(clock=clock) as loop:
        office, _ = open_office(loop, 2, hold_ms=1_000)
        first, second = await office.hold(), await office.hold()
        with pytest.raises(SoldOutError, match="there is no seat left"):
            await office.hold()
        await office.pay(first.number)
        await pass_time(clock, office, 1_000)
        assert await office.free() == 1
        with pytest.raises(NoSuchTicketError, match="there is no ticket 2"):
            await office.pay(second.number)


async def test_what_was_sold_outlives_the_office() -> None:
    clock = VirtualClock()
    async with ActorSystem(clock=clock) as loop:
        office, changes = open_office(loop, 3, hold_ms=1_000)
        async with changes.listen() as stream:
            first = await office.pay((await office.hold()).number)
            second = await office.hold()
            office.stumble()
            assert await office.free() == 1
            assert await office.pay(first.number) == first
            # The clock of what was held begins anew with the new incarnation.
            await pass_time(clock, office, 999)
            assert await office.free() == 1
            await pass_time(clock, office, 1)
            assert await office.free() == 2
            changes.close()
            told = [change async for change in stream]
        assert told == [
            Change("held", told[0].ticket, 2),
            Change("paid", first, 2),
            Change("held", second, 1),
            Change("paid", first, 1),
            Change("given up", second, 2),
        ]
        assert loop.events.counts().restarts == 1
