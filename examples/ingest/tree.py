"""The supervision tree.

    ingest
      metrics
      index        one for each series
      heads        one for each series, with backoff: a disk that is full now may not be in a while
      merges       as many as there are jobs; one that fails is not started again
      maintenance

Actors hold handles of supervised children, which stay valid over restarts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bandstand import ActorSystem, child
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from examples.ingest.disk import Disk
from examples.ingest.head import Head
from examples.ingest.index import Index
from examples.ingest.maintenance import Maintenance, Series
from examples.ingest.merge import Merge
from examples.ingest.metrics import Metrics


@dataclass(frozen=True, kw_only=True)
class Settings:
    folder: Path
    series: Sequence[str]
    flush_ms: float = 20
    maintenance_ms: float = 200
    keep: int | None = None
    """The minimum number of points of a series that are kept; None for all."""


@dataclass(frozen=True)
class Store:
    """The handles of a running store."""

    root: Supervisor
    metrics: Metrics
    series: dict[str, Series]


def open_store(system: ActorSystem, settings: Settings, disk: Disk) -> Store:
    root = spawn_supervisor(system, SupervisorSpec(), name="ingest")
    metrics = root.start_child(child("metrics").of(Metrics))
    folders = {name: settings.folder / name for name in settings.series}
    indices = [child(name).of(Index, folder) for name, folder in folders.items()]
    root.start_child(ChildSpec("index", SupervisorSpec(children=indices)))
    heads = [
        child(name, backoff=Backoff(initial=0.1, maximum=2.0)).of(
            Head, name, folder, disk, metrics, settings.flush_ms
        )
        for name, folder in folders.items()
    ]
    # Wait for room on a full disk: never give up.
    root.start_child(ChildSpec("heads", SupervisorSpec(children=heads, max_restarts=1_000_000)))
    series = {
        name: Series(folder, root.handle(Head, "heads", name), root.handle(Index, "index", name))
        for name, folder in folders.items()
    }
    job = child("merge", restart=RestartPolicy.NEVER).each_of(Merge, disk, metrics)
    root.start_child(ChildSpec("merges", DynamicSpec(child=job, max_children=len(heads))))

    def start_merge(each: Series, segments: Sequence[int]) -> None:
        merges = root.supervisor("merges", DynamicSupervisor[Merge])
        if merges is not None:
            merges.start_child(each.folder, segments, each.index)

    root.start_child(
        child("maintenance").of(
            Maintenance,
            list(series.values()),
            disk,
            metrics,
            start_merge,
            period_ms=settings.maintenance_ms,
            keep=settings.keep,
        )
    )
    return Store(root, metrics, series)
