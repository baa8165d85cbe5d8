"""The rehearsal room: what it takes to test actors without waiting. Production code never imports it.

`VirtualClock` is time as an argument, `Probe` keeps what an actor received, `shuffle` runs ready actors in another order
for every seed, `Leaks` and `leaks_of` find what a test has left behind. The pytest plugin offers all of it as fixtures:
`bandstand_loop`, `bandstand_loops`, `bandstand_clock`, `bandstand_probe`, `bandstand_seed`, `bandstand_shuffled`,
`bandstand_leak_check`.

How the room is laid out: `clock` is the time and `eventloop` asyncio in it, `probe` keeps, `seeded` shuffles, `leaks` looks for what is left; `plugin` is pytest's.
"""

from bandstand.testing.clock import VirtualClock as VirtualClock
from bandstand.testing.virtual_time import VirtualEventLoop as VirtualEventLoop
from bandstand.testing.leaks import Leaks as Leaks
from bandstand.testing.leaks import leaks_of as leaks_of
from bandstand.testing.leaks import pending_tasks as pending_tasks
from bandstand.testing.probe import Probe as Probe
from bandstand.testing.probe import Received as Received
from bandstand.testing.seeded import shuffle as shuffle

__all__ = (
    "Leaks",
    "Probe",
    "Received",
    "VirtualClock",
    "VirtualEventLoop",
    "leaks_of",
    "pending_tasks",
    "shuffle",
)
