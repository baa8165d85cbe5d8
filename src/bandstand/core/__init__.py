"""The loop: single-threaded actors at the speed of a function call.

    loop = Loop()

    def greeter(ctx, name):
        print("hello", name)

    actor = loop.spawn(greeter)
    loop.send(actor, "world")
    loop.run(until_idle=True)

An actor is a behavior, `behavior(ctx, data)`, a state, and a bounded mailbox with four lanes. A loop runs its actors
one message at a time, fairly, in one thread; timers come as messages too. What it promises is written down, with
numbers, in `docs/semantics.md`.

How the room is laid out: `loop` is the loop with its life, `host` the one place that touches asyncio, `hot/` the
compiled kernel; `vocabulary` has the closed sets of words, `numbers` their numbers, `signals` what the system says.
"""

from bandstand.core.behavior import Behavior as Behavior
from bandstand.core.behavior import Context as Context
from bandstand.core.clock import Clock as Clock
from bandstand.core.clock import IdleClock as IdleClock
from bandstand.core.clock import MonotonicClock as MonotonicClock
from bandstand.core.config import LoopConfig as LoopConfig
from bandstand.core.events import DeadLetter as DeadLetter
from bandstand.core.events import Dropped as Dropped
from bandstand.core.events import Escalated as Escalated
from bandstand.core.events import EventCounts as EventCounts
from bandstand.core.events import Lagged as Lagged
from bandstand.core.events import Restarted as Restarted
from bandstand.core.events import RuntimeEvent as RuntimeEvent
from bandstand.core.events import Stalled as Stalled
from bandstand.core.events import Unhandled as Unhandled
from bandstand.core.hot.ids import ActorId as ActorId
from bandstand.core.hot.monitors import Monitor as MonitorId
from bandstand.core.hot.wheel import Timer as TimerId
from bandstand.core.loop import Loop as Loop
from bandstand.core.newsroom import Listening as Listening
from bandstand.core.newsroom import Newsroom as Newsroom
from bandstand.core.observer import Observer as Observer
from bandstand.core.signals import ChildExit as ChildExit
from bandstand.core.signals import ChildStart as ChildStart
from bandstand.core.signals import Down as Down
from bandstand.core.signals import Exit as Exit
from bandstand.core.signals import IoEvent as IoEvent
from bandstand.core.statistics import Statistics as Statistics
from bandstand.core.tree import Tree as Tree
from bandstand.core.tree import TreeNode as TreeNode
from bandstand.core.vocabulary import FAIL as FAIL
from bandstand.core.vocabulary import OK as OK
from bandstand.core.vocabulary import STOP as STOP
from bandstand.core.vocabulary import ActorStatus as ActorStatus
from bandstand.core.vocabulary import ExitReason as ExitReason
from bandstand.core.vocabulary import Interest as Interest
from bandstand.core.vocabulary import Lane as Lane
from bandstand.core.vocabulary import Overflow as Overflow
from bandstand.core.vocabulary import Readiness as Readiness
from bandstand.core.vocabulary import SystemTag as SystemTag
from bandstand.core.vocabulary import Verdict as Verdict

__all__ = (
    "FAIL",
    "OK",
    "STOP",
    "ActorId",
    "ActorStatus",
    "Behavior",
    "ChildExit",
    "ChildStart",
    "Clock",
    "Context",
    "DeadLetter",
    "Down",
    "Dropped",
    "Escalated",
    "EventCounts",
    "Exit",
    "ExitReason",
    "IdleClock",
    "Interest",
    "IoEvent",
    "Lagged",
    "Lane",
    "Listening",
    "Loop",
    "LoopConfig",
    "MonitorId",
    "MonotonicClock",
    "Newsroom",
    "Observer",
    "Overflow",
    "Readiness",
    "Restarted",
    "RuntimeEvent",
    "Stalled",
    "Statistics",
    "SystemTag",
    "TimerId",
    "Tree",
    "TreeNode",
    "Unhandled",
    "Verdict",
)
