"""The raw loop: single-threaded actors at the speed of a function call.

    loop = Loop()

    def greeter(ctx, name):
        print("hello", name)

    actor = loop.spawn(greeter)
    loop.send(actor, "world")
    loop.run(until_idle=True)

An actor is a behavior, `behavior(ctx, data)`, a state, and a bounded mailbox with four lanes. A loop runs its actors in one thread,
fairly, one message at a time; timers are messages too. `docs/guarantees.md` lists the guarantees by number.
"""

# Start reading in `loop` (the public class), `kernel` (sending and scheduling) and `mailbox` (what a message passes
# through). `asyncio_host` is the connection to asyncio, and `coroutines` runs async behaviors.

# First: compiled modules import the modules of the types they use, and these lead back to the kernel.
import bandstand.core.kernel as _kernel  # noqa: F401  # pyright: ignore[reportUnusedImport]
from bandstand.core.config import Clock as Clock
from bandstand.core.config import IdleClock as IdleClock
from bandstand.core.config import LoopConfig as LoopConfig
from bandstand.core.config import MonotonicClock as MonotonicClock
from bandstand.core.context import Behavior as Behavior
from bandstand.core.context import Context as Context
from bandstand.core.counters import Statistics as Statistics
from bandstand.core.enums import FAIL as FAIL
from bandstand.core.enums import OK as OK
from bandstand.core.enums import STOP as STOP
from bandstand.core.enums import ActorStatus as ActorStatus
from bandstand.core.enums import ExitReason as ExitReason
from bandstand.core.enums import Interest as Interest
from bandstand.core.enums import Lane as Lane
from bandstand.core.enums import Overflow as Overflow
from bandstand.core.enums import Readiness as Readiness
from bandstand.core.enums import SystemTag as SystemTag
from bandstand.core.enums import Verdict as Verdict
from bandstand.core.events import DeadLetter as DeadLetter
from bandstand.core.events import Dropped as Dropped
from bandstand.core.events import Escalated as Escalated
from bandstand.core.events import EventCounts as EventCounts
from bandstand.core.events import EventSubscription as EventSubscription
from bandstand.core.events import Lagged as Lagged
from bandstand.core.events import Observer as Observer
from bandstand.core.events import Restarted as Restarted
from bandstand.core.events import RuntimeEvent as RuntimeEvent
from bandstand.core.events import RuntimeEvents as RuntimeEvents
from bandstand.core.events import Stalled as Stalled
from bandstand.core.events import Unhandled as Unhandled
from bandstand.core.ids import ActorId as ActorId
from bandstand.core.links import Monitor as MonitorId
from bandstand.core.loop import Loop as Loop
from bandstand.core.messages import ChildExit as ChildExit
from bandstand.core.messages import ChildStart as ChildStart
from bandstand.core.messages import Down as Down
from bandstand.core.messages import Exit as Exit
from bandstand.core.messages import IoEvent as IoEvent
from bandstand.core.timer_wheel import Timer as TimerId
from bandstand.core.tree import Tree as Tree
from bandstand.core.tree import TreeNode as TreeNode

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
    "EventSubscription",
    "Exit",
    "ExitReason",
    "IdleClock",
    "Interest",
    "IoEvent",
    "Lagged",
    "Lane",
    "Loop",
    "LoopConfig",
    "MonitorId",
    "MonotonicClock",
    "Observer",
    "Overflow",
    "Readiness",
    "Restarted",
    "RuntimeEvent",
    "RuntimeEvents",
    "Stalled",
    "Statistics",
    "SystemTag",
    "TimerId",
    "Tree",
    "TreeNode",
    "Unhandled",
    "Verdict",
)
