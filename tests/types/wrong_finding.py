"""What a user of names and topics must not write: both checkers have an error on each marked line, and on no other. Never run."""

from __future__ import annotations

from bandstand.core import ActorId, Lagged
from bandstand.registry import Change, Registry
from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.topic import Policy, Topic, runtime_events
from tests.types.right_finding import Counter, Counting, Price, Special


class Chart(Actor):
    @tell
    def on_price(self, price: Price) -> None: ...

    @tell
    def on_special(self, price: Special) -> None: ...

    @tell
    def on_two(self, price: Price, other: int) -> None: ...

    @tell
    def on_lag(self, lag: Lagged) -> None: ...

    @tell
    def on_change(self, change: Change[Other]) -> None: ...

    @ask
    def last(self, price: Price) -> float:
        return 0.0


class Other(Actor):
    @tell
    def work(self) -> None: ...


async def names(loop: ActorSystem, chart: Chart, other: Other, raw: ActorId) -> None:
    registry = Registry(loop)
    registry.register("raw", raw)  # E:
    registry.register("class", Chart)  # E:
    registry.find("chart")  # E:
    registry.find("chart", int)  # E:
    registry.find("chart", Chart).on_price(Price("a", 1.0))  # E:
    registry.get("chart", Chart).nothing()  # E:
    registry.get("chart", Chart).on_price(5)  # E:
    one: Other = registry.get("chart", Chart)  # E:
    two: Counter = registry.get("counter", Counter)  # E:
    registry.wait("chart", Chart).on_price(Price("a", 1.0))  # E:
    three: Other = await registry.wait("chart", Chart)  # E:
    charts = registry.group("charts", Chart)
    charts.join(other)  # E:
    charts.leave(raw)  # E:
    charts.members()[0].work()  # E:
    charts.tell(Chart.on_price)  # E:
    charts.tell(Chart.on_price, 5)  # E:
    charts.tell(Chart.on_price, Price("a", 1.0), 5)  # E:
    charts.tell(Chart.last, Price("a", 1.0))  # E:
    charts.tell(chart.on_price, Price("a", 1.0))  # E:
    charts.tell("on_price", Price("a", 1.0))  # E:
    charts.watch(chart.on_change)  # E:
    charts.watch(chart.on_price)  # E:
    registry.group("counters", Counter).tell(Counting.add, "x")  # E:
    print(one, two, three)


async def topics(loop: ActorSystem, chart: Chart) -> None:
    prices = Topic(loop, Price, name="prices")
    Topic(loop, Price)  # E:
    Topic(loop, Price("a", 1.0), name="prices")  # E:
    prices.publish("x")  # E:
    prices.subscribe(chart.on_special)  # E:
    prices.subscribe(chart.on_two)  # E:
    prices.subscribe(chart.last)  # E:
    prices.subscribe(print)  # E:
    prices.subscribe(lambda price: None)  # E:
    prices.subscribe(chart)  # E:
    prices.subscribe(chart.on_price, policy=Policy.CONFLATE, key=lambda price: price.nothing)  # E:
    prices.subscribe(chart.on_price, on_lag=chart.on_price)  # E:
    async with prices.listen() as stream:
        async for price in stream:
            price.nothing  # E:
        for price in stream:  # E:
            pass
    runtime_events(loop).subscribe(chart.on_price)  # E:
    runtime_events(loop).subscribe(chart.on_lag)  # E:
