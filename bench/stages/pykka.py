"""Pykka as a stage: an actor is a thread with a queue, called by its reference."""

from __future__ import annotations

from importlib import import_module
from threading import Event
from typing import Any

from bench import stopwatch, threads
from bench.case import Outcome, Setting, WrongResultError
from bench.stage import Handler, Program, Send

END = object()
PATIENCE = 200.0


class PykkaStage:
    """Threads of this process."""

    end = END

    def __init__(self) -> None:
        self._pykka: Any = import_module("pykka")
        self.send: Send = self._pykka.ActorRef.tell
        self.finished = Event()

    def spawn(self, handler: Handler, room: int = 1024) -> threads.Ref:  # noqa: ARG002  # unbounded
        def on_receive(me: Any, data: Any) -> None:
            if handler(me, data) is END:
                me.stop()

        return threads.kind(on_receive).start()

    def finish(self) -> None:
        self.finished.set()

    def close(self) -> None:
        """Stop whoever is still there."""
        self._pykka.ActorRegistry.stop_all()


def play(program: Program, setting: Setting) -> Outcome:
    """Play a program until it says that it has finished."""
    stage = PykkaStage()
    play = program(stage, setting)
    start = stopwatch.start()
    play.begin()
    is_finished = stage.finished.wait(PATIENCE)
    elapsed = stopwatch.since(start)
    stage.close()
    if not is_finished:
        raise WrongResultError(f"it has not finished within {PATIENCE:.0f} s")
    return play.outcome(elapsed)
