"""Cooperative: on the kubelet's own thread, in turn with others of its kind."""

from __future__ import annotations

from typing import final

from bandstand.pod.stages.local import LocalStage

__all__ = ("CooperativeStage",)


@final
class CooperativeStage(LocalStage):
    """An ensemble on the kubelet's event loop.

    Each turn that the event loop gives it is one round of its actors, by priority and within the budgets of its loop; then it goes
    to the end of the row. So the row itself is the round robin, and an empty one is a kubelet that sleeps.
    """
