"""The actors. They do not depend on where they run: on the same thread, on another thread, or in another process."""

from __future__ import annotations

import os
import sys
from collections import Counter
from math import sin
from time import perf_counter

from bandstand import Actor, Lane, ask, tell
from bandstand.pod import Directory

WIDTH = 40


class Metrics(Actor):
    """Counts events of all actors."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    @tell
    def add(self, what: str) -> None:
        self._counts[what] += 1

    @ask
    def read(self) -> dict[str, int]:
        return dict(self._counts)


class Log(Actor):
    """Keeps log lines. It shares its pod with `Metrics`."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    @tell
    def note(self, line: str) -> None:
        self._lines.append(line)

    @ask
    def read(self) -> list[str]:
        return self._lines


class DisplayPeers(Directory):
    metrics: Metrics
    log: Log


class Display(Actor):
    """Shows frames. The program ends when it is closed. Windows belong on the main thread, and so does this actor."""

    def __init__(self, peers: DisplayPeers) -> None:
        self._peers = peers
        self._engine = 0

    @tell
    def show(self, number: int, picture: str, process: int) -> None:
        if process != self._engine:
            self._engine = process
            self._peers.log.note.try_send(f"frame {number} comes from process {process}")
        self._peers.metrics.add.try_send("shown")
        if sys.stdout.isatty():
            print(f"\r{number:5} {picture} {process:8}", end="", flush=True)

    @tell(lane=Lane.CONTROL)
    def close(self) -> None:
        self.stop()


class Settings(Actor):
    """The settings of the engine. They are in the same pod, so an ask is a direct call."""

    def __init__(self, speed: float) -> None:
        self._speed = speed

    @ask
    def speed(self) -> float:
        return self._speed


class EnginePeers(Directory):
    settings: Settings
    display: Display
    metrics: Metrics


class Engine(Actor):
    """Draws. It has a process of its own, because drawing takes time and may crash."""

    def __init__(self, peers: EnginePeers) -> None:
        self._peers = peers

    @tell(lane=Lane.CONTROL)
    def resize(self, width: int) -> None:
        """On the CONTROL lane: handled before all frames that wait."""
        self._width = width

    _width = WIDTH

    @tell
    async def frame(self, number: int) -> None:
        place = round((self._width - 1) * (1 + sin(number * await self._peers.settings.speed())) / 2)
        self._peers.display.show.try_send(
            number, "·" * place + "o" + "·" * (self._width - 1 - place), os.getpid()
        )
        self._peers.metrics.add.try_send("drawn")


class VsyncPeers(Directory):
    engine: Engine
    metrics: Metrics


class Vsync(Actor):
    """Ticks. While the engine is being restarted, frames are left out."""

    def __init__(self, peers: VsyncPeers, fps: float) -> None:
        self._peers = peers
        self._fps = fps
        self._start = perf_counter()

    def on_start(self) -> None:
        self.every(1 / self._fps, self.tick)

    def tick(self) -> None:
        number = round((perf_counter() - self._start) * self._fps)
        taken = self._peers.engine.frame.try_send(number)
        self._peers.metrics.add.try_send("ticks" if taken else "left out")

    @tell(lane=Lane.CONTROL)
    def crash(self) -> None:
        raise RuntimeError("the crystal is cracked")
