"""Channels, cancel tokens and scopes: connect tasks, actors and threads, and end them together.

    async with ActorSystem(), Scope() as scope:
        orders = Channel[Order](100)
        scope.consume(orders, handle)               # an actor that handles one element at a time
        scope.launch(read_socket(orders))           # a task
        await orders.send(order, timeout=0.5)
        orders.close()                              # what is in it is still handled; then the actor ends, and the scope

A `Channel` passes elements from any number of senders to any number of receivers, each element exactly once,
in order. `select` does the first of several operations that is possible. A `CancelToken` is a request to end
that tasks, threads and plain functions can check. A `Scope` is a block that owns what was started in it. The
guarantees are numbered in `docs/guarantees.md`.
"""

# Modules: `channel` has `Channel` and `select`, with `_channel` as the compiled core. `consumer` has channel actors, with
# `_consumer` as the compiled core. `cancel` has tokens, `deadline` timers for waits and tokens, `event` an event that is
# set once, and `scope` the scope with its children and errors.

from bandstand.scope.cancel import CancelToken as CancelToken
from bandstand.scope.channel import CONFLATED as CONFLATED
from bandstand.scope.channel import UNBOUNDED as UNBOUNDED
from bandstand.scope.channel import Buffering as Buffering
from bandstand.scope.channel import Channel as Channel
from bandstand.scope.channel import ChannelStatistics as ChannelStatistics
from bandstand.scope.channel import Operation as Operation
from bandstand.scope.channel import select as select
from bandstand.scope.consumer import ChannelActor as ChannelActor
from bandstand.scope.consumer import Consumer as Consumer
from bandstand.scope.consumer import EndedBy as EndedBy
from bandstand.scope.consumer import Outcome as Outcome
from bandstand.scope.consumer import Process as Process
from bandstand.scope.consumer import consume as consume
from bandstand.scope.scope import HasActorId as HasActorId
from bandstand.scope.scope import Scope as Scope

__all__ = (
    "CONFLATED",
    "UNBOUNDED",
    "Buffering",
    "CancelToken",
    "Channel",
    "ChannelActor",
    "ChannelStatistics",
    "Consumer",
    "EndedBy",
    "HasActorId",
    "Operation",
    "Outcome",
    "Process",
    "Scope",
    "consume",
    "select",
)
