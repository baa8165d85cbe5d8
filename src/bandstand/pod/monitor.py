"""Status, health and message counts of a running troupe, from any thread and with a timeout.

All pods are asked at once, and each answers on its own thread. A pod that does not answer in time is reported as unknown, or as stuck.
On the thread of a pod, or of the kubelet, that thread is read directly: it cannot answer while it waits.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from concurrent.futures import wait as wait_all
from time import monotonic, time
from typing import TYPE_CHECKING, TypeVar

from bandstand.pod.enums import PodPhase
from bandstand.pod.placement import CooperativePlacement, LocalPlacement, PodLocation
from bandstand.pod.status import Health, PodStats, PodStatus, RoleStatus, TroupeStatus, thread_location

if TYPE_CHECKING:
    from bandstand.pod.controller import Controller
    from bandstand.pod.phases import Phases
    from bandstand.pod.placement import PodActivity
    from bandstand.pod.spec import PodSpec, TroupeSpec

__all__ = ("check_health", "collect_stats", "read_status")

T = TypeVar("T")


def read_status(
    name: str,
    spec: TroupeSpec,
    phases: Phases,
    kubelet: Controller | None,
    nested: tuple[TroupeStatus, ...],
    timeout_ms: float,
) -> TroupeStatus:
    """Return the status of a troupe. The mailboxes of pods that do not answer in time are unknown."""
    answers = {} if kubelet is None else _collect(kubelet, kubelet.activities(), timeout_ms)
    is_running = _is_running(kubelet)
    return TroupeStatus(
        name=name,
        is_running=is_running,
        up_s=monotonic() - kubelet.ready_at if kubelet is not None and is_running else None,
        pods=tuple(_pod_status(pod, phases, kubelet, answers.get(pod.name)) for pod in spec.members),
        nested=nested,
    )


def check_health(
    name: str,
    spec: TroupeSpec,
    phases: Phases,
    kubelet: Controller | None,
    nested: tuple[Health, ...],
    timeout_ms: float,
) -> Health:
    """Check whether the kubelet and the pods answer before the timeout."""
    began = monotonic()
    is_alive = kubelet is not None and kubelet.thread.is_alive() and not kubelet.ended.done()
    if kubelet is None or not is_alive:
        return Health(
            troupe=name, is_kubelet_alive=False, is_kubelet_prompt=False, kubelet_latency=0.0, nested=nested
        )
    asked = kubelet.activities()
    pings: Mapping[str, Future[None]] = kubelet.ping()
    is_prompt = asked is None or _is_done(asked, timeout_ms / 1000)
    took_ms = (monotonic() - began) * 1000
    answers = _collect(kubelet, asked, timeout_ms - took_ms)
    if pings and answers.get(None) is not None:
        # The caller's own loop has answered, so it can receive the pongs of the pods.
        wait_all(pings.values(), timeout=max(0.0, began + timeout_ms / 1000 - monotonic()))
    else:
        pings = {}
    gone = kubelet.membership.gone
    events = {pod.name: phases.of(pod.name) for pod in spec.members}
    return Health(
        troupe=name,
        is_kubelet_alive=True,
        is_kubelet_prompt=is_prompt,
        kubelet_latency=took_ms / 1000,
        kubelet_at="" if is_prompt else _kubelet_location(kubelet),
        down=tuple(
            pod for pod, event in events.items() if event.phase is not PodPhase.RUNNING and pod not in gone
        ),
        gone=tuple(pod for pod, event in events.items() if event.phase is PodPhase.FAILED and pod in gone),
        stuck=tuple(pod for pod, answer in answers.items() if answer is None and pod is not None),
        cut_off=tuple(
            pod
            for pod, ping in pings.items()
            if not ping.done() and answers.get(pod) is not None and events[pod].phase is PodPhase.RUNNING
        ),
        nested=nested,
    )


def collect_stats(kubelet: Controller | None, timeout_ms: float) -> PodStats:
    """Add up the message counts of all incarnations, past and present.

    Pods that do not answer in time are not counted.
    """
    if kubelet is None:
        return PodStats()
    if kubelet.is_abandoned and not kubelet.ended.done():
        # Its thread is stuck, so neither it nor its cooperative pods can answer.
        placements = list(kubelet.membership.placements.values())
        last = [each.runtime.abandoned_stats() for each in placements if isinstance(each, LocalPlacement)]
        return sum(last, kubelet.ended_stats())
    answers = _collect(kubelet, kubelet.activities(), timeout_ms)
    present = [answer.stats for answer in answers.values() if answer is not None]
    if kubelet.ended.done():
        # The caller's own loop has ended too, and cannot answer.
        present.append(kubelet.caller.final)
    return sum(present, kubelet.ended_stats())


def _is_running(kubelet: Controller | None) -> bool:
    """Whether all pods have started, and the troupe is not stopping."""
    if kubelet is None or not kubelet.ready.done() or kubelet.is_stopping:
        return False
    return kubelet.ready.exception() is None


def _collect(
    kubelet: Controller, asked: Future[Mapping[str | None, Future[PodActivity]]] | None, timeout_ms: float
) -> dict[str | None, PodActivity | None]:
    """Wait for the answers of the pods; None for a pod that does not answer in time."""
    until = monotonic() + timeout_ms / 1000
    if asked is None or not _is_done(asked, timeout_ms / 1000):
        return {}
    thread = threading.get_native_id()
    own = {
        pod: placement.activity()
        for pod, placement in list(kubelet.membership.placements.items())
        if placement.location.native_id == thread
    }
    futures = {**asked.result(), **own}
    wait_all(futures.values(), timeout=max(0.0, until - monotonic()))
    return {
        pod: future.result() if future.done() and not future.cancelled() else None
        for pod, future in futures.items()
    }


def _is_done(future: Future[T], timeout_s: float) -> bool:
    return bool(wait_all((future,), timeout=max(0.0, timeout_s)).done)


def _kubelet_location(kubelet: Controller) -> str:
    """Return where the kubelet's thread is: the line, and the actor whose handler runs."""
    location = thread_location(kubelet.thread.native_id)
    for placement in list(kubelet.membership.placements.values()):
        if isinstance(placement, CooperativePlacement):
            # Read from another thread. The kubelet's thread is blocked, so the value is stable; otherwise it is only out of date.
            actor = placement.runtime.loop.kernel.current_actor()
            for role, known in placement.runtime.addresses.items():
                if known == actor:
                    return f"{location}: a handler of actor {role!r} of pod {placement.pod!r}"
    return location


def _pod_status(
    pod: PodSpec, phases: Phases, kubelet: Controller | None, answer: PodActivity | None
) -> PodStatus:
    event = phases.of(pod.name)
    placement = None if kubelet is None else kubelet.membership.placements.get(pod.name)
    where = PodLocation() if placement is None else placement.location
    return PodStatus(
        name=pod.name,
        phase=event.phase,
        reason=event.reason,
        number=event.number,
        is_gone=kubelet is not None and pod.name in kubelet.membership.gone,
        thread=pod.thread,
        restart=pod.restart,
        roles=tuple(
            RoleStatus(
                name=role.name,
                kind=getattr(role.kind, "__qualname__", str(role.kind)),
                is_exposed=role.is_exposed,
                waiting=None if answer is None else answer.waiting.get(role.name),
            )
            for role in pod.roles
        ),
        up_s=max(0.0, time() - event.at) if event.phase is PodPhase.RUNNING else None,
        process=where.process,
        native_id=where.native_id,
        core=where.core,
    )
