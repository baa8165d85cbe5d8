"""Topics: typed events for whoever has subscribed, each at their own speed.

    prices = Topic(loop, Price, name="prices")
    prices.subscribe(chart.on_price, policy=Policy.CONFLATE, key=lambda price: price.symbol)
    prices.publish(Price("ACME", 3.5))

    async with prices.listen(room=100) as stream:       # for code that is no actor
        async for price in stream:
            ...

Each subscriber has a room of its own, and a policy for when it is full; what it misses is counted and told. A topic never fills a
mailbox, and nobody waits for anybody. What it promises is written down in `docs/semantics.md`.

How the room is laid out: `topic` is what one publishes on, `receives` what can be subscribed, `subscription` an actor that is sent
its events, `stream` the same for code that is no actor; `backlog` is what waits for one of them, by its `policy`; `lag` tells of what
was missed, `afar` is what other threads publish, `checks` what is refused; `runtime` is the loop's own events as a topic; `lowlevel` is
a door for the rooms above.
"""

from bandstand.topic.policy import Policy as Policy
from bandstand.topic.receives import Receives as Receives
from bandstand.topic.runtime import runtime_events as runtime_events
from bandstand.topic.stream import Stream as Stream
from bandstand.topic.subscription import TopicSubscription as TopicSubscription
from bandstand.topic.topic import Topic as Topic

__all__ = ("Policy", "Receives", "Stream", "Topic", "TopicSubscription", "runtime_events")
