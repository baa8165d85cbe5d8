"""Topics: typed publish and subscribe between actors, with a bounded queue for each subscriber.

    prices = Topic(system, Price, name="prices")
    prices.subscribe(chart.on_price, policy=Policy.CONFLATE, key=lambda price: price.symbol)
    prices.publish(Price("ACME", 3.5))

    async with prices.listen(room=100) as stream:       # for code outside actors
        async for price in stream:
            ...

Each subscriber has its own bounded queue and a policy for when it is full; missed events are counted and reported. A topic never fills a
mailbox and never makes a publisher wait. The guarantees are in `docs/guarantees.md`.
"""

# Modules: `topic` publishes, `subscription` delivers to an actor and `stream` to other code; `backlog` is the queue
# with its policies, and counts and reports missed events.

from bandstand.topic.backlog import Policy as Policy
from bandstand.topic.stream import Stream as Stream
from bandstand.topic.subscription import TopicSubscription as TopicSubscription
from bandstand.topic.topic import Receives as Receives
from bandstand.topic.topic import Topic as Topic
from bandstand.topic.topic import runtime_events as runtime_events

__all__ = ("Policy", "Receives", "Stream", "Topic", "TopicSubscription", "runtime_events")
