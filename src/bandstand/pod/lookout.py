"""Looking at a troupe while it plays: its status, its health, its books. From any thread, and never for longer than so long.

Everybody is asked at once, and answers when he has time. Who has none in time is not known, or stuck. Whoever looks from the thread of
a pod, or of the kubelet itself, gets the answer of that thread at once: it is in his own hands.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_all
from time import monotonic, time
from typing import TYPE_CHECKING, TypeVar

from bandstand.pod.books import PodBooks
from bandstand.pod.health import Health
from bandstand.pod.stack import stack_of
from bandstand.pod.stages import CooperativeStage, LocalStage, Where
from bandstand.pod.status import PodStatus, RoleStatus, TroupeStatus
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    from bandstand.pod.kubelet import Kubelet
    from bandstand.pod.phases import Phases
    from bandstand.pod.spec import PodSpec, TroupeSpec
    from bandstand.pod.stages import Look


__all__ = ("books_of", "health_of", "status_of")

T = TypeVar("T")


def status_of(
    name: str,
    spec: TroupeSpec,
    phases: Phases,
    kubelet: Kubelet | None,
    nested: tuple[TroupeStatus, ...],
    ms: float,
) -> TroupeStatus:
    """What every pod does; how many messages wait, as far as that is known in so many milliseconds."""
    looks = _looks(kubelet, ms)
    return TroupeStatus(
        name=name,
        is_playing=is_playing(kubelet),
        up_s=monotonic() - kubelet.up_at if kubelet is not None and is_playing(kubelet) else None,
        pods=tuple(_pod_status(pod, phases, kubelet, looks.get(pod.name)) for pod in spec.pods),
        nested=nested,
    )


def health_of(
    name: str,
    spec: TroupeSpec,
    phases: Phases,
    kubelet: Kubelet | None,
    nested: tuple[Health, ...],
    ms: float,
) -> Health:
    """Whether the kubelet answers within so many milliseconds, and who else does."""
    began = monotonic()
    is_alive = kubelet is not None and kubelet.thread.is_alive() and not kubelet.over.done()
    if kubelet is None or not is_alive:
        return Health(
            troupe=name, is_kubelet_alive=False, is_kubelet_prompt=False, kubelet_ms=0.0, nested=nested
        )
    asked = kubelet.look()
    pings: Mapping[str, Future[None]] = kubelet.ping()
    is_prompt = asked is None or _is_done(asked, ms / 1000)
    took = (monotonic() - began) * 1000
    looks = _answers(kubelet, asked, ms - took)
    if pings and looks.get(None) is not None:
        # The outside has answered, and so would hear the pods.
        wait_all(pings.values(), timeout=max(0.0, began + ms / 1000 - monotonic()))
    else:
        pings = {}
    gone = kubelet.exchange.gone
    here = {pod.name: phases.of(pod.name) for pod in spec.pods}
    return Health(
        troupe=name,
        is_kubelet_alive=True,
        is_kubelet_prompt=is_prompt,
        kubelet_ms=took,
        kubelet_at="" if is_prompt else _whereabouts(kubelet),
        down=tuple(
            pod for pod, event in here.items() if event.phase is not PodPhase.RUNNING and pod not in gone
        ),
        gone=tuple(pod for pod, event in here.items() if event.phase is PodPhase.FAILED and pod in gone),
        stuck=tuple(pod for pod, look in looks.items() if look is None and pod is not None),
        cut_off=tuple(
            pod
            for pod, ping in pings.items()
            if not ping.done() and looks.get(pod) is not None and here[pod].phase is PodPhase.RUNNING
        ),
        nested=nested,
    )


def books_of(kubelet: Kubelet | None, ms: float) -> PodBooks:
    """The books of everybody who is there, or has been; of those who do not answer in so many milliseconds, nothing."""
    if kubelet is None:
        return PodBooks()
    if kubelet.is_left_behind and not kubelet.over.done():
        # Its thread, and with it its cooperative pods, will not answer any more.
        stages = list(kubelet.exchange.stages.values())
        left = [stage.ensemble.last_books() for stage in stages if isinstance(stage, LocalStage)]
        return sum(left, kubelet.closed_books())
    present = [look.books for look in _looks(kubelet, ms).values() if look is not None]
    if kubelet.over.done():
        # Nobody is there any more who could be asked.
        present.append(kubelet.outside.final)
    return sum(present, kubelet.closed_books())


def is_playing(kubelet: Kubelet | None) -> bool:
    """Whether all pods have been started, and it was not stopped."""
    if kubelet is None or not kubelet.up.done() or kubelet.is_stopping:
        return False
    return kubelet.up.exception() is None


def _looks(kubelet: Kubelet | None, ms: float) -> dict[str | None, Look | None]:
    """What everybody says who is there; None for those who have not answered in time."""
    return {} if kubelet is None else _answers(kubelet, kubelet.look(), ms)


def _answers(
    kubelet: Kubelet, asked: Future[Mapping[str | None, Future[Look]]] | None, ms: float
) -> dict[str | None, Look | None]:
    until = monotonic() + ms / 1000
    if asked is None or not _is_done(asked, ms / 1000):
        return {}
    here = threading.get_native_id()
    mine = {
        pod: stage.look()
        for pod, stage in list(kubelet.exchange.stages.items())
        if stage.where.native_id == here
    }
    looks = {**asked.result(), **mine}
    wait_all(looks.values(), timeout=max(0.0, until - monotonic()))
    return {
        pod: look.result() if look.done() and not look.cancelled() else None for pod, look in looks.items()
    }


def _is_done(future: Future[T], seconds: float) -> bool:
    return bool(wait_all((future,), timeout=max(0.0, seconds)).done)


def _whereabouts(kubelet: Kubelet) -> str:
    """What the kubelet's thread is at: the line, and the actor whose handler it is."""
    at = stack_of(kubelet.thread.native_id)
    for stage in list(kubelet.exchange.stages.values()):
        if isinstance(stage, CooperativeStage):
            # Its thread is busy, and does not change it meanwhile; if it does, the answer is late, and not wrong.
            actor = stage.ensemble.loop.kernel.current_actor()
            for role, known in stage.ensemble.addresses.items():
                if known == actor:
                    return f"{at}: a handler of actor {role!r} of pod {stage.pod!r}"
    return at


def _pod_status(pod: PodSpec, phases: Phases, kubelet: Kubelet | None, look: Look | None) -> PodStatus:
    event = phases.of(pod.name)
    stage = None if kubelet is None else kubelet.exchange.stages.get(pod.name)
    where = Where() if stage is None else stage.where
    is_running = event.phase is PodPhase.RUNNING
    return PodStatus(
        name=pod.name,
        phase=event.phase,
        reason=event.reason,
        number=event.number,
        is_gone=kubelet is not None and pod.name in kubelet.exchange.gone,
        thread=pod.thread,
        restart=pod.restart,
        roles=tuple(
            RoleStatus(
                name=role.name,
                kind=getattr(role.kind, "__qualname__", str(role.kind)),
                is_exposed=role.is_exposed,
                waiting=None if look is None else look.waiting.get(role.name),
            )
            for role in pod.roles
        ),
        up_s=max(0.0, time() - event.at) if is_running else None,
        process=where.process,
        native_id=where.native_id,
        core=where.core,
    )
