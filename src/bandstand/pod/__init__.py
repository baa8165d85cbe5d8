"""Pods: actors in threads and processes, with handles that survive restarts.

    class EnginePeers(Directory):
        vsync: Vsync

    class Studio(Troupe):
        vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=60)
        engine_pod = pod(thread=ThreadModel.PROCESS, restart=RestartPolicy.ON_FAILURE)
        engine = engine_pod.expose(Engine, directory(EnginePeers))
        config = engine_pod.of(Config)

    with Studio() as studio:
        studio.engine.render(scene)

A troupe is declared as a class. Its roles are actors; its pods are groups of actors that share a thread or a process and are restarted
together. The thread model of a pod is one option: classes, handles and calls do not depend on it. A handle of a role is valid as long
as the troupe runs: it sends to the current incarnation, and waits, fails or queues the message while the pod is down. A process pod with
`replicas=4` runs in four processes behind the same handles.
`docs/guarantees.md` lists the guarantees.
"""

# The modules that a reader starts with: `declaration` reads a class into the specs of `spec`, `deployment` runs it,
# `controller` supervises the pods, and `shutdown` stops them. `phases`, `status` and `monitor` show what they do.

from bandstand.actor.when_down import WhenDown as WhenDown
from bandstand.actor.when_down import when_down as when_down
from bandstand.pod.address_book import AddressBook as PodRegistry
from bandstand.pod.declaration import ExposedRole as ExposedRole
from bandstand.pod.declaration import HiddenRole as HiddenRole
from bandstand.pod.declaration import NestedSpec as NestedSpec
from bandstand.pod.declaration import NestedTroupe as NestedTroupe
from bandstand.pod.declaration import PodOptions as PodOptions
from bandstand.pod.declaration import RoleOptions as RoleOptions
from bandstand.pod.declaration import nested as nested
from bandstand.pod.declaration import pod as pod
from bandstand.pod.deployment import Troupe as Troupe
from bandstand.pod.directory import Directory as Directory
from bandstand.pod.directory import directory as directory
from bandstand.pod.enums import PodPhase as PodPhase
from bandstand.pod.enums import ThreadModel as ThreadModel
from bandstand.pod.link import Undelivered as Undelivered
from bandstand.pod.phases import Phases as Phases
from bandstand.pod.phases import PhaseStream as PhaseStream
from bandstand.pod.phases import PodEvent as PodEvent
from bandstand.pod.spec import PodSpec as PodSpec
from bandstand.pod.spec import RoleSpec as RoleSpec
from bandstand.pod.spec import TroupeSpec as TroupeSpec
from bandstand.pod.status import Health as Health
from bandstand.pod.status import PodStats
from bandstand.pod.status import PodStatus as PodStatus
from bandstand.pod.status import RoleStatus as RoleStatus
from bandstand.pod.status import TroupeStatus as TroupeStatus
from bandstand.supervision import RestartPolicy as RestartPolicy

__all__ = (
    "Directory",
    "ExposedRole",
    "Health",
    "HiddenRole",
    "NestedSpec",
    "NestedTroupe",
    "PhaseStream",
    "Phases",
    "PodEvent",
    "PodOptions",
    "PodPhase",
    "PodRegistry",
    "PodSpec",
    "PodStats",
    "PodStatus",
    "RestartPolicy",
    "RoleOptions",
    "RoleSpec",
    "RoleStatus",
    "ThreadModel",
    "Troupe",
    "TroupeSpec",
    "TroupeStatus",
    "Undelivered",
    "WhenDown",
    "directory",
    "nested",
    "pod",
    "when_down",
)
