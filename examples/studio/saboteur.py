"""The saboteur: a plain thread that kills pods, waits for their restart and counts.

It uses the handles that it got at the start. They stay valid over all restarts.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from bandstand.pod import PodPhase
from examples.studio.troupe import Studio

PATIENCE_MS = 20_000


@dataclass(frozen=True, slots=True)
class Story:
    """The result of a run."""

    counts: dict[str, int]
    engines: list[str]
    """The processes from which frames came, in order."""
    restarts: dict[str, int]


class LateError(Exception):
    """An expected event has not happened in time."""


def sabotage(studio: Studio, kills: int, frames: int, say: Callable[[str], None]) -> Story:
    """Kill the engine and crash the vsync `kills` times, and wait for `frames` frames after each time."""
    await_frames(studio, frames)
    for number in range(1, kills + 1):
        engine = studio.status().pod("engine_pod").process
        assert engine is not None
        os.kill(engine, signal.SIGKILL)
        studio.phases.until(
            "engine_pod", PodPhase.RUNNING, number=number + 1, timeout=PATIENCE_MS / 1000
        ).blocking()
        say(f"the engine was killed (process {engine}); the next one plays")
        studio.vsync.crash()
        studio.phases.until(
            "vsync", PodPhase.RUNNING, number=number + 1, timeout=PATIENCE_MS / 1000
        ).blocking()
        say("the vsync has crashed; the next one ticks")
        await_frames(studio, frames)
    story = Story(
        studio.metrics.read.blocking(),
        studio.log.read.blocking(),
        {each.name: each.restarts for each in studio.status().pods},
    )
    studio.display.close()
    return story


def await_frames(studio: Studio, frames: int) -> None:
    """Wait until `frames` more frames were shown."""
    start = shown(studio)
    until = time.monotonic() + PATIENCE_MS / 1000
    while shown(studio) < start + frames:
        if time.monotonic() > until:
            raise LateError(f"{frames} frames were not shown within {PATIENCE_MS} ms")
        time.sleep(0.01)


def shown(studio: Studio) -> int:
    return studio.metrics.read.blocking().get("shown", 0)
