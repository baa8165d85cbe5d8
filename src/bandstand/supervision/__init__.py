"""Supervision: who restarts whom. Erlang/OTP's supervisors, for the actors of a loop.

    tree = SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=[
            ChildSpec("database", database, init=connect, backoff=Backoff()),
            ChildSpec("cache", cache),
            ChildSpec("workers", SupervisorSpec(children=[ChildSpec("worker", work)])),
        ],
    )
    root = spawn_supervisor(loop, tree)
    loop.send(root.address("cache"), "hello")
    loop.run()

A spec says what to run and how to go about failures; it is frozen data, checked when it is made. `spawn_supervisor` starts
it: children start from the first to the last and stop the other way round. A child that ends is started again by its mode,
with fresh state from its init and a new id, together with those its supervisor's strategy names. A supervisor that has
restarted too often gives up and leaves the matter to the one above; if there is none, the loop ends and says why.

How the room is laid out: `spec` is what a user writes, `vocabulary` its words, `checks` and `caps` what it must keep to;
`intensity`, `backoff` and `decision` are the arithmetic, pure, for everybody who restarts anything. A supervisor is built in
storeys: `hot.rebirth`, the way of a restart; `seats`, its children, each a `hot.seat` with a `place` that others see; `judge`,
what it makes of their ends; `engine`, the actor; `overseer`, the face that all kinds share. `supervisor`, `dynamic` and `partition` are the kinds, `keys` says which
partition a key has, `spawn` starts them, `story` is what they say;
`following` is for those who keep an eye on a child's place.
"""

from bandstand.supervision.backoff import Backoff as Backoff
from bandstand.supervision.backoff import Wait as Wait
from bandstand.supervision.dynamic import DynamicSupervisor as DynamicSupervisor
from bandstand.supervision.hot.history import History as History
from bandstand.supervision.intensity import Intensity as Intensity
from bandstand.supervision.intensity import Restarts as Restarts
from bandstand.supervision.keys import place_of as place_of
from bandstand.supervision.overseer import Counts as Counts
from bandstand.supervision.overseer import Overseer as Overseer
from bandstand.supervision.partition import PartitionSupervisor as PartitionSupervisor
from bandstand.supervision.place import ChildInfo as ChildInfo
from bandstand.supervision.place import Phase as Phase
from bandstand.supervision.spawn import spawn_supervisor as spawn_supervisor
from bandstand.supervision.spec import AnySupervisorSpec as AnySupervisorSpec
from bandstand.supervision.spec import ChildSpec as ChildSpec
from bandstand.supervision.spec import DynamicSpec as DynamicSpec
from bandstand.supervision.spec import Init as Init
from bandstand.supervision.spec import PartitionSpec as PartitionSpec
from bandstand.supervision.spec import SupervisorSpec as SupervisorSpec
from bandstand.supervision.supervisor import Supervisor as Supervisor
from bandstand.supervision.vocabulary import AutoShutdown as AutoShutdown
from bandstand.supervision.vocabulary import ChildMode as ChildMode
from bandstand.supervision.vocabulary import Mailbox as Mailbox
from bandstand.supervision.vocabulary import Shutdown as Shutdown
from bandstand.supervision.vocabulary import Strategy as Strategy

__all__ = (
    "AnySupervisorSpec",
    "AutoShutdown",
    "Backoff",
    "ChildInfo",
    "ChildMode",
    "ChildSpec",
    "Counts",
    "DynamicSpec",
    "DynamicSupervisor",
    "History",
    "Init",
    "Intensity",
    "Mailbox",
    "Overseer",
    "PartitionSpec",
    "PartitionSupervisor",
    "Phase",
    "Restarts",
    "Shutdown",
    "Strategy",
    "Supervisor",
    "SupervisorSpec",
    "Wait",
    "place_of",
    "spawn_supervisor",
)
