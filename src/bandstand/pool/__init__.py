"""Pools: several supervised workers behind one handle.

    pool = pooled(loop, 8, routing=Routing.LEAST_LOADED).spawn(Renderer, quality=3)
    pool.handle.render(page)                    # one of them does
    print(await pool.handle.count())            # asks, deadlines, cancellation: as with one actor
    await pool.resize(12)
    await pool.drain()

The handle of a pool has the type of its worker's handle, and is used like one. Who gets a message is the pool's `routing`; what becomes
of it when its worker dies, its `on_death`; how much it takes before it says that it is full, its mailbox. Each message has exactly one
fate, and `pool.status()` counts them. What the room promises is written down in `docs/semantics.md`.

How the room is laid out: `options` is how one is made, `pool` what one holds of it. `router` is its actor, `dispatch` who has which message:
`sharing` picks among workers that are alike, `keys` by a key. An `errand` is a message on its way, a `bench` the place of a worker, a
`queue` what waits. `status` has the books, `vocabulary` the words.
"""

from bandstand.pool.options import PoolOptions as PoolOptions
from bandstand.pool.options import pooled as pooled
from bandstand.pool.pool import Pool as Pool
from bandstand.pool.pool import Resizing as Resizing
from bandstand.pool.status import PoolStatus as PoolStatus
from bandstand.pool.status import WorkerStatus as WorkerStatus
from bandstand.pool.vocabulary import ByKey as ByKey
from bandstand.pool.vocabulary import OnDeath as OnDeath
from bandstand.pool.vocabulary import Routing as Routing

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
