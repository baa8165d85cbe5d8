"""Lifetimes: how elements pass between those who live beside each other, and how all of them end together.

    async with Loop(), Scope() as scope:
        orders = Channel[Order](100)
        scope.consume(orders, handle)               # an actor: one element at a time, nothing while there is none
        scope.launch(read_socket(orders))           # a task
        await orders.send(order, timeout_ms=500)
        orders.close()                              # what is in it is still handled; then the actor ends, and the scope

A `Channel` takes elements from any number of senders to any number of receivers: tasks, actors and threads; each exactly once,
first come, first served. `select` does whichever of several operations can be done first. A `CancelToken` is a wish to end, which
goes down a tree and can be seen by tasks, threads and plain functions. A `Scope` is a block that owns what was started in
it. What the room promises is written down, with numbers, in `docs/semantics.md`.

How the room is laid out: `channel` and `choice` are what a user sees of the compiled `hot/`; `latch` is something that happens
once; `token`, with `branch` and `listeners`, is the tree, `guard` the block that ends by it, `alarm` every deadline; `consumer` is what
a channel actor runs, `consume` starts one, `channelactor` is its handle, `outcome` how it ended; `scope` is what a user sees of
`lifetime`, with its `body`, which knows an `interruption` by a signal, its `children`, each a `child`, and its `ledger` of errors. `checks` is what is
refused, `numbers` are the words of compiled code.
"""

from bandstand.scope.channel import CONFLATED as CONFLATED
from bandstand.scope.channel import UNBOUNDED as UNBOUNDED
from bandstand.scope.channel import Buffering as Buffering
from bandstand.scope.channel import Channel as Channel
from bandstand.scope.channel import ChannelStatistics as ChannelStatistics
from bandstand.scope.channel import Operation as Operation
from bandstand.scope.channelactor import ChannelActor as ChannelActor
from bandstand.scope.child import HasActorId as HasActorId
from bandstand.scope.choice import select as select
from bandstand.scope.consume import consume as consume
from bandstand.scope.consumer import Consumer as Consumer
from bandstand.scope.consumer import Process as Process
from bandstand.scope.outcome import EndedBy as EndedBy
from bandstand.scope.outcome import Outcome as Outcome
from bandstand.scope.scope import Scope as Scope
from bandstand.scope.token import CancelToken as CancelToken

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
