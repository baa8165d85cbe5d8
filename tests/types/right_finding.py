"""What a user of names and topics may write: both type checkers accept it and infer what is asserted here. Never run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, assert_type

from bandstand.actor import Actor, ActorSystem, Implements, Interface, ask, tell
from bandstand.core import Lagged, RuntimeEvent
from bandstand.registry import Change, Group, Registry, Told
from bandstand.topic import Policy, Stream, Topic, TopicSubscription, runtime_events


@dataclass(frozen=True)
class Price:
    symbol: str
    value: float


class Special(Price):
    pass


class Chart(Actor):
    @tell
    def on_price(self, price: Price) -> None: ...

    @tell
    async def on_anything(self, what: object) -> None: ...

    @tell
    def with_default(self, price: Price, *, quietly: bool = False) -> None: ...

    @tell
    def on_lag(self, lag: Lagged) -> None: ...

    @tell
    def on_change(self, change: Change[Chart]) -> None: ...

    @tell
    def on_event(self, event: RuntimeEvent) -> None: ...

    @ask
    def last(self) -> float:
        return 0.0

    def on_start(self) -> None:
        registry = Registry(ActorSystem())
        registry.register("me", self.me)


class Counting(Interface, Protocol):
    @tell
    def add(self, n: int) -> None: ...


class Counter(Implements[Counting]):
    def add(self, n: int) -> None: ...


async def names(loop: ActorSystem, chart: Chart, counting: Counting) -> None:
    registry = Registry(loop)
    registry.register("chart", chart)
    registry.register("counter", counting)
    assert_type(registry.find("chart", Chart), Chart | None)
    assert_type(registry.get("chart", Chart), Chart)
    assert_type(await registry.wait("chart", Chart, timeout=None), Chart)
    assert_type(registry.find("counter", Counter), Counting | None)
    assert_type(registry.get("counter", Counter), Counting)
    assert_type(await registry.wait("counter", Counter), Counting)
    assert_type(await registry.get("chart", Chart).last(), float)
    assert_type(registry.names(), tuple[str, ...])
    charts = registry.group("charts", Chart)
    assert_type(charts, Group[Chart])
    assert_type(charts.members(), tuple[Chart, ...])
    assert_type(charts.join(chart), bool)
    assert_type(charts.tell(Chart.on_price, Price("a", 1.0)), Told)
    charts.tell(Chart.with_default, price=Price("a", 1.0), quietly=True)
    assert_type(charts.watch(chart.on_change), TopicSubscription[Change[Chart]])
    counters = registry.group("counters", Counter)
    assert_type(counters, Group[Counting])
    counters.join(counting)
    counters.tell(Counting.add, 5)


async def topics(loop: ActorSystem, chart: Chart) -> None:
    prices = Topic(loop, Price, name="prices")
    assert_type(prices, Topic[Price])
    assert_type(prices.publish(Price("a", 1.0)), int)
    prices.publish(Special("a", 1.0))
    prices.publish_async(Price("a", 1.0))
    assert_type(prices.subscribe(chart.on_price), TopicSubscription[Price])
    prices.subscribe(chart.on_anything, policy=Policy.CONFLATE, key=lambda price: price.symbol, room=5)
    prices.subscribe(chart.with_default, policy=Policy.CUT_OFF, on_lag=chart.on_lag)
    specials = Topic(loop, Special, name="specials")
    specials.subscribe(chart.on_price)
    async with prices.listen(room=5, policy=Policy.DROP_NEWEST) as stream:
        assert_type(stream, Stream[Price])
        async for price in stream:
            assert_type(price, Price)
        assert_type(stream.missed, int)
    events = runtime_events(loop)
    assert_type(events, Topic[RuntimeEvent])
    events.subscribe(chart.on_event)
