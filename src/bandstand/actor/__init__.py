"""Typed services: actors as classes, handles with the same methods, asks that are awaited.

    class Counter(Actor):
        def __init__(self, start: int = 0) -> None:
            self.total = start

        @data
        def add(self, n: int) -> None:
            self.total += n

        @ask
        def value(self) -> int:
            return self.total

    async with Loop() as loop:
        counter = loop.spawn(Counter, start=10)
        counter.add(5)
        print(await counter.value())

A class is declared once: its marked methods are its messages, their marks say by which lane they go, and the handle that
`spawn` returns has the same methods, with the same types. What it promises is written down in `docs/semantics.md`.

How the room is laid out: `actor` is what to derive from, `performer` what every actor has, `interface` the form with the interface
apart, `messages` the form with message classes, which `posting` sends; `marks` is what to put on methods, `batching` what to put on those that take a list. `declare` reads a
class and finds what is wrong with it, `likeness` compares a handler with its interface, `generics` reads what a class says for
a type parameter. `loop` and `spawning` start actors, which `checks` looks at, `children` puts them under supervisors. `faces` is what `handle.method`
is, `far` and `receipts` the same from other threads, `outside` and `facade` what else a handle can do. `timing`, `work` and `jobs` are what an
actor does beside its messages, `stash` what it keeps for later, `brood` its children, `porter` what travels with a message, `answering` an ask of a coroutine.
`machine` is an actor with `states`, which `plan` reads into the table of `course`, and `ride` performs; `bodies` tells what is empty.
`reentry` has asks handled out of turn, `waiting` tells who waits for whom, `status` how an actor is; `presence` is whoever is
behind a handle that somebody keeps.
`hot` is compiled: the path of every message; `numbers` are its numbers.
"""

from bandstand.actor.actor import Actor as Actor
from bandstand.actor.actor import Signal as Signal
from bandstand.actor.background import Work as Work
from bandstand.actor.children import ChildOptions as ChildOptions
from bandstand.actor.children import child as child
from bandstand.actor.children import supervised as supervised
from bandstand.actor.decorators import ask as ask
from bandstand.actor.decorators import batch as batch
from bandstand.actor.decorators import batch_ask as batch_ask
from bandstand.actor.decorators import control as control
from bandstand.actor.decorators import data as data
from bandstand.actor.decorators import management as management
from bandstand.actor.faces import Ask as Ask
from bandstand.actor.faces import Reply as Reply
from bandstand.actor.faces import Tell as Tell
from bandstand.actor.interface import Implements as Implements
from bandstand.actor.interface import Interface as Interface
from bandstand.actor.loop import AskStatistics as AskStatistics
from bandstand.actor.loop import Loop as Loop
from bandstand.actor.messages import MessageActor as MessageActor
from bandstand.actor.messages import on as on
from bandstand.actor.outside import End as End
from bandstand.actor.outside import id_of as id_of
from bandstand.actor.outside import is_alive as is_alive
from bandstand.actor.outside import loop_of as loop_of
from bandstand.actor.porter import Tracer as Tracer
from bandstand.actor.posting import MessageAsk as MessageAsk
from bandstand.actor.posting import Request as Request
from bandstand.actor.spawning import Spawner as Spawner
from bandstand.actor.stash import Stash as Stash
from bandstand.actor.state_machine import Machine as Machine
from bandstand.actor.state_machine import State as State
from bandstand.actor.status import ActorReport as ActorReport
from bandstand.actor.status import Inquiry as Inquiry
from bandstand.actor.status import peek as peek
from bandstand.actor.status import ping as ping
from bandstand.actor.status import status_of as status_of
from bandstand.actor.timers import Alarm as Alarm
from bandstand.actor.timers import Ticker as Ticker
from bandstand.actor.waiting import WaitFor as WaitFor
from bandstand.actor.waiting import Waits as Waits

__all__ = (
    "Actor",
    "ActorReport",
    "Alarm",
    "Ask",
    "AskStatistics",
    "ChildOptions",
    "End",
    "Implements",
    "Inquiry",
    "Interface",
    "Loop",
    "Machine",
    "MessageActor",
    "MessageAsk",
    "Reply",
    "Request",
    "Signal",
    "Spawner",
    "Stash",
    "State",
    "Tell",
    "Ticker",
    "Tracer",
    "WaitFor",
    "Waits",
    "Work",
    "ask",
    "batch",
    "batch_ask",
    "child",
    "control",
    "data",
    "id_of",
    "is_alive",
    "loop_of",
    "management",
    "on",
    "peek",
    "ping",
    "status_of",
    "supervised",
)
