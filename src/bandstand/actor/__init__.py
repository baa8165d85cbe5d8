"""Typed actors: classes whose decorated methods are messages, and handles with the same methods.

    class Counter(Actor):
        def __init__(self, start: int = 0) -> None:
            self.total = start

        @tell
        def add(self, n: int) -> None:
            self.total += n

        @ask
        def value(self) -> int:
            return self.total

    async with ActorSystem() as system:
        counter = system.spawn(Counter, start=10)
        counter.add(5)
        print(await counter.value())

An actor class is declared once: its decorated methods are its messages, the decorators say which lane they use, and the handle
that `spawn` returns has the same methods with the same types. `docs/guarantees.md` states the guarantees.
"""

# The path of a message: a handle's method is a `HandleMethod` (`handle`), which posts to the mailbox; `dispatch` calls
# the actor's method, and `async_handlers` runs it if it is async; `reply` is what an ask returns. `context_vars`
# carries context variables along. `bound_methods` is `handle.method` without a call, `cross_thread` asks from other
# threads, `retry` repeats asks, `wait_graph` and `reentrancy` deal with ask cycles. `system` starts actors,
# `supervised_actor` puts them under supervisors, `when_down` and `child_queue` decide what becomes of messages while a
# child is being restarted, `handle_watch` tells when a handle stops being useful, and `schema` answers questions about
# actor classes. A module with a `.pxd` beside it is compiled.

from bandstand.actor.actor import Actor as Actor
from bandstand.actor.actor import Signal as Signal
from bandstand.actor.background import Work as Work
from bandstand.actor.bound_methods import Ask as Ask
from bandstand.actor.bound_methods import End as End
from bandstand.actor.bound_methods import MessageAsk as MessageAsk
from bandstand.actor.bound_methods import Request as Request
from bandstand.actor.bound_methods import Tell as Tell
from bandstand.actor.context_vars import Tracer as Tracer
from bandstand.actor.decorators import ask as ask
from bandstand.actor.decorators import batch as batch
from bandstand.actor.decorators import batch_ask as batch_ask
from bandstand.actor.decorators import tell as tell
from bandstand.actor.handle import id_of as id_of
from bandstand.actor.handle import is_alive as is_alive
from bandstand.actor.handle import loop_of as loop_of
from bandstand.actor.interface import Implements as Implements
from bandstand.actor.interface import Interface as Interface
from bandstand.actor.messages import MessageActor as MessageActor
from bandstand.actor.messages import on as on
from bandstand.actor.reply import Reply as Reply
from bandstand.actor.retry import AskRetry as AskRetry
from bandstand.actor.stash import Stash as Stash
from bandstand.actor.state_machine import Machine as Machine
from bandstand.actor.state_machine import State as State
from bandstand.actor.status import ActorReport as ActorReport
from bandstand.actor.status import Inquiry as Inquiry
from bandstand.actor.status import peek as peek
from bandstand.actor.status import ping as ping
from bandstand.actor.status import status_of as status_of
from bandstand.actor.supervised_actor import ChildOptions as ChildOptions
from bandstand.actor.supervised_actor import child as child
from bandstand.actor.supervised_actor import sibling as sibling
from bandstand.actor.system import ActorSystem as ActorSystem
from bandstand.actor.system import AskStatistics as AskStatistics
from bandstand.actor.system import Spawner as Spawner
from bandstand.actor.timers import Alarm as Alarm
from bandstand.actor.timers import Ticker as Ticker
from bandstand.actor.wait_graph import WaitFor as WaitFor
from bandstand.actor.wait_graph import Waits as Waits
from bandstand.actor.when_down import WhenDown as WhenDown
from bandstand.actor.when_down import when_down as when_down

__all__ = (
    "Actor",
    "ActorReport",
    "ActorSystem",
    "Alarm",
    "Ask",
    "AskRetry",
    "AskStatistics",
    "ChildOptions",
    "End",
    "Implements",
    "Inquiry",
    "Interface",
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
    "WhenDown",
    "Work",
    "ask",
    "batch",
    "batch_ask",
    "child",
    "id_of",
    "is_alive",
    "loop_of",
    "on",
    "peek",
    "ping",
    "sibling",
    "status_of",
    "tell",
    "when_down",
)
