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

from bandstand.service.actor import Actor as Actor
from bandstand.service.batching import batch as batch
from bandstand.service.batching import batch_ask as batch_ask
from bandstand.service.children import ChildOptions as ChildOptions
from bandstand.service.children import child as child
from bandstand.service.children import supervised as supervised
from bandstand.service.faces import Ask as Ask
from bandstand.service.faces import Reply as Reply
from bandstand.service.faces import Tell as Tell
from bandstand.service.interface import Implements as Implements
from bandstand.service.interface import Interface as Interface
from bandstand.service.loop import AskStatistics as AskStatistics
from bandstand.service.loop import Loop as Loop
from bandstand.service.machine import Machine as Machine
from bandstand.service.marks import ask as ask
from bandstand.service.marks import control as control
from bandstand.service.marks import data as data
from bandstand.service.marks import management as management
from bandstand.service.messages import MessageActor as MessageActor
from bandstand.service.messages import on as on
from bandstand.service.outside import End as End
from bandstand.service.outside import id_of as id_of
from bandstand.service.outside import is_alive as is_alive
from bandstand.service.outside import loop_of as loop_of
from bandstand.service.performer import Signal as Signal
from bandstand.service.porter import Tracer as Tracer
from bandstand.service.posting import MessageAsk as MessageAsk
from bandstand.service.posting import Request as Request
from bandstand.service.spawning import Spawner as Spawner
from bandstand.service.stash import Stash as Stash
from bandstand.service.states import State as State
from bandstand.service.status import ActorReport as ActorReport
from bandstand.service.status import Inquiry as Inquiry
from bandstand.service.status import peek as peek
from bandstand.service.status import ping as ping
from bandstand.service.status import status_of as status_of
from bandstand.service.timing import Alarm as Alarm
from bandstand.service.timing import Ticker as Ticker
from bandstand.service.waiting import WaitFor as WaitFor
from bandstand.service.waiting import Waits as Waits
from bandstand.service.work import Work as Work

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
