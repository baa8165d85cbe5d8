"""Where incarnations of pods run: one placement class for each thread model.

`base` defines what the controller can do with any placement, and what all placements in this process share. `threads` has the
placements in this process, which differ in the thread whose event loop runs the pod. `process` runs a pod in a child process.
"""

from bandstand.pod.placement.base import LocalPlacement as LocalPlacement
from bandstand.pod.placement.base import Placement as Placement
from bandstand.pod.placement.base import PlacementCallbacks as PlacementCallbacks
from bandstand.pod.placement.base import PodActivity as PodActivity
from bandstand.pod.placement.base import PodLocation as PodLocation
from bandstand.pod.placement.process import ProcessPlacement as ProcessPlacement
from bandstand.pod.placement.threads import CallerPlacement as CallerPlacement
from bandstand.pod.placement.threads import CooperativePlacement as CooperativePlacement
from bandstand.pod.placement.threads import DedicatedPlacement as DedicatedPlacement
from bandstand.pod.placement.threads import MainPlacement as MainPlacement

__all__ = (
    "CallerPlacement",
    "CooperativePlacement",
    "DedicatedPlacement",
    "LocalPlacement",
    "MainPlacement",
    "Placement",
    "PlacementCallbacks",
    "PodActivity",
    "PodLocation",
    "ProcessPlacement",
)
