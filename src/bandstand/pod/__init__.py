"""Pods: where actors run, and addresses that outlive them.

    class EnginePeers(Directory):
        vsync: Vsync

    class Studio(Troupe):
        vsync = pod(restart=RestartPolicy.ALWAYS).expose(Vsync, fps=60)
        engine_pod = pod(thread=ThreadModel.PROCESS, restart=RestartPolicy.ON_FAILURE)
        engine = engine_pod.expose(Engine, directory(EnginePeers))
        config = engine_pod.of(Config)

    with Studio() as studio:
        studio.engine.render(scene)

A troupe is declared as a class: its roles are actors, its pods are groups of them that share a thread, or a process, and are started
again together. Where a pod runs is one word; classes, handles and calls stay the same. A handle of a role is good for the whole life
of the troupe: it finds whoever plays the role at present, and waits, fails or keeps the message while nobody does. What the room
promises is written down in `docs/semantics.md`.

How the room is laid out. What is declared: `vocabulary` has the words, `spec` the frozen data; `declare`, `directory` and `nested` are what
one writes in the class, `wiring` and `manifest` read and check it, `travel` what goes to other processes, `cast` is the base with all of
that. What a handle meets: its `place`, the `registry` with a `slot` for each pod, what is `held` there, the `passport` by which it travels. Who
plays: an `ensemble` is one incarnation of a pod on an event loop, with its `players` and its `neighbours`; `books` and `ending` are what is left
of it. `link` is the way between two processes, `process` a child, `forks` what a fork must not have, `affinity` where a thread may run. Who
sees to it: `stages` are the places where an ensemble can be, `gate` decides about restarts, `comeback` remembers them, `exchange` tells everybody where everybody is, `arrivals` when
they all know it, `life` and `nest` see one pod, or a troupe inside, through its lives, `shutdown` ends them in order, all at the `post` of the
`kubelet`, at which `lookout` looks from outside, with `stack`. `phases`, `status` and `health` are what can be seen; `later` and `settled` are time and futures for any thread, `wakeup` is
for signals; `production` is a troupe that plays, `troupe` what programs use.
"""

from bandstand.pod.books import PodBooks as PodBooks
from bandstand.pod.declare import ExposedRole as ExposedRole
from bandstand.pod.declare import HiddenRole as HiddenRole
from bandstand.pod.declare import PodOptions as PodOptions
from bandstand.pod.declare import RoleOptions as RoleOptions
from bandstand.pod.declare import pod as pod
from bandstand.pod.directory import Directory as Directory
from bandstand.pod.directory import directory as directory
from bandstand.pod.health import Health as Health
from bandstand.pod.link import Undelivered as Undelivered
from bandstand.pod.nested import NestedSpec as NestedSpec
from bandstand.pod.nested import NestedTroupe as NestedTroupe
from bandstand.pod.nested import nested as nested
from bandstand.pod.phases import Phases as Phases
from bandstand.pod.phases import PhaseStream as PhaseStream
from bandstand.pod.phases import PodEvent as PodEvent
from bandstand.pod.place import when_down as when_down
from bandstand.pod.registry import PodRegistry as PodRegistry
from bandstand.pod.spec import PodSpec as PodSpec
from bandstand.pod.spec import RoleSpec as RoleSpec
from bandstand.pod.spec import TroupeSpec as TroupeSpec
from bandstand.pod.status import PodStatus as PodStatus
from bandstand.pod.status import RoleStatus as RoleStatus
from bandstand.pod.status import TroupeStatus as TroupeStatus
from bandstand.pod.troupe import Troupe as Troupe
from bandstand.pod.vocabulary import PodPhase as PodPhase
from bandstand.pod.vocabulary import RestartPolicy as RestartPolicy
from bandstand.pod.vocabulary import ThreadModel as ThreadModel
from bandstand.pod.vocabulary import WhenDown as WhenDown

__all__ = (
    "Directory",
    "ExposedRole",
    "Health",
    "HiddenRole",
    "NestedSpec",
    "NestedTroupe",
    "PhaseStream",
    "Phases",
    "PodBooks",
    "PodEvent",
    "PodOptions",
    "PodPhase",
    "PodRegistry",
    "PodSpec",
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
