"""`Debouncer`: the latest value, after silence or at the limit."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand import Actor, ActorSystem, tell
from bandstand.errors import InvalidArgumentError
from bandstand.parts import Debouncer
from bandstand.testing import VirtualClock, run_async

pytestmark = pytest.mark.guarantee("G347")


class Index(Actor):
    def __init__(self, built: list[str]) -> None:
        self.built = built

    @tell
    def build(self, text: str) -> None:
        self.built.append(text)


async def test_the_latest_value_is_passed_on_after_silence(bandstand_system: ActorSystem) -> None:
    built: list[str] = []
    index = bandstand_system.spawn(Index, built)
    debouncer = bandstand_system.spawn(Debouncer[str], index.build, 0.5)
    for text in ("a", "ab", "abc"):
        debouncer.put(text)
        await asyncio.sleep(0.4)
    assert built == []
    await asyncio.sleep(0.2)
    assert built == ["abc"]
    await asyncio.sleep(60)
    assert built == ["abc"]


async def test_flush_and_stop_pass_on_what_waits(bandstand_system: ActorSystem) -> None:
    delivered: list[int] = []

    debouncer = bandstand_system.spawn(Debouncer[int], delivered.append, 60)
    debouncer.put(1)
    debouncer.flush()
    debouncer.flush()
    debouncer.put(2)
    debouncer.stop(drain=True)
    await debouncer.ended()
    assert delivered == [1, 2]
    killed = bandstand_system.spawn(Debouncer[int], delivered.append, 60)
    killed.put(3)
    await asyncio.sleep(0.1)
    killed.kill()
    await killed.ended()
    assert delivered == [1, 2]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="deliver is 5"):
        Debouncer(5, 1)  # type: ignore[arg-type]  # that is the point
    with pytest.raises(InvalidArgumentError, match="delay is -1"):
        Debouncer(print, -1)
    with pytest.raises(InvalidArgumentError, match="max_delay is -1"):
        Debouncer(print, 1, max_delay=-1)


@given(st.lists(st.integers(0, 1500), max_size=30), st.none() | st.integers(0, 3000))
def test_every_value_is_passed_on_or_replaced_in_time(gaps: list[int], max_ms: int | None) -> None:
    """Never early, never out of order, the last one always, and never later than the delay or the limit allows."""

    async def body(system: ActorSystem) -> None:
        now = asyncio.get_running_loop().time
        put_at: list[float] = []
        delivered: list[tuple[int, float]] = []
        debouncer = system.spawn(
            Debouncer[int],
            lambda value: delivered.append((value, now())),
            0.7,
            max_delay=None if max_ms is None else max_ms / 1000,
        )
        for number, gap in enumerate(gaps):
            await asyncio.sleep(gap / 1000)
            put_at.append(now())
            debouncer.put(number)
        await asyncio.sleep(10)
        values = [value for value, _ in delivered]
        assert values == sorted(set(values))
        assert not gaps or values[-1] == len(gaps) - 1
        first = 0
        for value, at in delivered:
            waited, oldest = at - put_at[value], at - put_at[first]
            limit = 0.7 if max_ms is None else min(0.7, max_ms / 1000)
            assert waited <= 0.7 + 0.002
            assert max_ms is None or oldest <= max_ms / 1000 + 0.002
            assert waited >= limit - 1e-6 or (max_ms is not None and oldest >= max_ms / 1000 - 1e-6)
            first = value + 1

    clock = VirtualClock()
    run_async(body, ActorSystem(clock=clock), clock=clock)
