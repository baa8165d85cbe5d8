"""Pools: several supervised workers behind one handle.

    pool = pooled(system, 8, routing=Routing.LEAST_LOADED).spawn(Renderer, quality=3)
    pool.handle.render(page)                    # one worker renders it
    print(await pool.handle.count())            # asks, deadlines and cancellation work as with one actor
    await pool.resize(12)
    await pool.drain()

The handle of a pool has the type of its worker's handle and is used like one. `routing` decides which worker gets a message, `on_death` what
happens to a message when its worker dies, and `mailbox` how many messages the pool takes before it is full. Each message has exactly one
outcome, and `pool.status()` counts them. The guarantees are in `docs/guarantees.md`.
"""

# Modules: `pool` is the public object and its options, `dispatcher` the actor that gives messages to workers, `routing`
# the choice of a worker, `status` the counters.

from bandstand.pool.pool import Pool as Pool
from bandstand.pool.pool import PoolOptions as PoolOptions
from bandstand.pool.pool import Resizing as Resizing
from bandstand.pool.pool import pooled as pooled
from bandstand.pool.routing import ByKey as ByKey
from bandstand.pool.routing import OnDeath as OnDeath
from bandstand.pool.routing import Routing as Routing
from bandstand.pool.status import PoolStatus as PoolStatus
from bandstand.pool.status import WorkerStatus as WorkerStatus

__all__ = (
    "ByKey",
    "OnDeath",
    "Pool",
    "PoolOptions",
    "PoolStatus",
    "Resizing",
    "Routing",
    "WorkerStatus",
    "pooled",
)
