"""Supervision: actors that restart other actors, as Erlang/OTP's supervisors do.

    tree = SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        children=[
            child("database", backoff=Backoff()).of(Database),
            child("cache").of(Cache, sibling(Database, "database")),
            ChildSpec("workers", SupervisorSpec(children=[child("worker").of(Worker)])),
        ],
    )
    root = spawn_supervisor(system, tree)
    cache = root.handle(Cache, "cache")

A spec says what to run and what to do about failures. It is frozen data, checked when it is made. `spawn_supervisor` starts
it. Children start in order and stop in reverse order. A child that exits is restarted according to its restart policy, with fresh
state and a new id, together with the siblings that the supervisor's strategy names. A supervisor that has restarted too often gives
up and escalates to the supervisor above it; if there is none, the system ends with the error.

Children are typed actors (`bandstand.actor.child`), functions of the raw loop (`ChildSpec`), or supervisors.
"""

from bandstand.supervision.children import ChildInfo as ChildInfo
from bandstand.supervision.children import Phase as Phase
from bandstand.supervision.restart import AutoShutdown as AutoShutdown
from bandstand.supervision.restart import Backoff as Backoff
from bandstand.supervision.restart import History as History
from bandstand.supervision.restart import Intensity as Intensity
from bandstand.supervision.restart import RestartBudget as RestartBudget
from bandstand.supervision.restart import RestartPolicy as RestartPolicy
from bandstand.supervision.restart import Restarts as Restarts
from bandstand.supervision.restart import Strategy as Strategy
from bandstand.supervision.restart import Wait as Wait
from bandstand.supervision.spec import ActorChildSpec as ActorChildSpec
from bandstand.supervision.spec import AnySupervisorSpec as AnySupervisorSpec
from bandstand.supervision.spec import ChildSpec as ChildSpec
from bandstand.supervision.spec import DynamicSpec as DynamicSpec
from bandstand.supervision.spec import Init as Init
from bandstand.supervision.spec import PartitionSpec as PartitionSpec
from bandstand.supervision.spec import Shutdown as Shutdown
from bandstand.supervision.spec import Spawnable as Spawnable
from bandstand.supervision.spec import SupervisorSpec as SupervisorSpec
from bandstand.supervision.supervisor import BaseSupervisor as Overseer
from bandstand.supervision.supervisor import Counts as Counts
from bandstand.supervision.supervisor import DynamicSupervisor as DynamicSupervisor
from bandstand.supervision.supervisor import PartitionSupervisor as PartitionSupervisor
from bandstand.supervision.supervisor import Supervisor as Supervisor
from bandstand.supervision.supervisor import place_of as place_of
from bandstand.supervision.supervisor import spawn_supervisor as spawn_supervisor
from bandstand.supervision.supervisor import supervisor_of as supervisor_of

__all__ = (
    "ActorChildSpec",
    "AnySupervisorSpec",
    "AutoShutdown",
    "Backoff",
    "ChildInfo",
    "ChildSpec",
    "Counts",
    "DynamicSpec",
    "DynamicSupervisor",
    "History",
    "Init",
    "Intensity",
    "Overseer",
    "PartitionSpec",
    "PartitionSupervisor",
    "Phase",
    "RestartBudget",
    "RestartPolicy",
    "Restarts",
    "Shutdown",
    "Spawnable",
    "Strategy",
    "Supervisor",
    "SupervisorSpec",
    "Wait",
    "place_of",
    "spawn_supervisor",
    "supervisor_of",
)
