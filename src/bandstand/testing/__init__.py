"""A test kit for actors: virtual time, probes, shuffled scheduling, leak checks. Production code never imports it.

- `VirtualClock` and `VirtualEventLoop` (`virtual_time`): time that tests control.
- `Probe` (`probe`): records what an actor receives. `shuffle` runs ready actors in another order for every seed.
- `Leaks`, `leaks_of` and `pending_tasks` (`leaks`): find threads, descriptors, actors and tasks that a test left behind.
- `run_async` (`harness`): runs the body of an async test, and checks what it leaves behind.
- `plugin`: the same as pytest fixtures: `bandstand_system`, `bandstand_run`, `bandstand_loop`, `bandstand_loops`, `bandstand_clock`,
  `bandstand_loop_factory`, `bandstand_probe`, `bandstand_seed`, `bandstand_shuffled`, `bandstand_leak_check`.
"""

from bandstand.testing.harness import run_async
from bandstand.testing.leaks import Leaks, leaks_of, pending_tasks
from bandstand.testing.probe import Probe, Received, shuffle
from bandstand.testing.virtual_time import VirtualClock, VirtualEventLoop

__all__ = (
    "Leaks",
    "Probe",
    "Received",
    "VirtualClock",
    "VirtualEventLoop",
    "leaks_of",
    "pending_tasks",
    "run_async",
    "shuffle",
)
