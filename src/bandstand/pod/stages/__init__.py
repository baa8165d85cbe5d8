"""Where incarnations run: one file for each thread model. All of them are an ensemble; what differs is who runs its event loop.

`stage` is what the kubelet knows of any of them; `local` an ensemble in this process; `remote` one on another thread; `outside` is the
program's own part of a troupe.
"""

from bandstand.pod.stages.cooperative import CooperativeStage as CooperativeStage
from bandstand.pod.stages.dedicated import DedicatedStage as DedicatedStage
from bandstand.pod.stages.local import LocalStage as LocalStage
from bandstand.pod.stages.main import MainStage as MainStage
from bandstand.pod.stages.outside import OutsideStage as OutsideStage
from bandstand.pod.stages.process import ProcessStage as ProcessStage
from bandstand.pod.stages.stage import Look as Look
from bandstand.pod.stages.stage import Stage as Stage
from bandstand.pod.stages.stage import Told as Told
from bandstand.pod.stages.stage import Where as Where

__all__ = (
    "CooperativeStage",
    "DedicatedStage",
    "LocalStage",
    "Look",
    "MainStage",
    "OutsideStage",
    "ProcessStage",
    "Stage",
    "Told",
    "Where",
)
