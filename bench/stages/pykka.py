"""Pykka as a stage: an actor is a thread with a queue, called by its reference.

Handlers run in many threads at once: what they count in common they must count in a way that threads cannot spoil.
"""

from __future__ import annotations

from importlib import import_module
from threading import Event, Semaphore
from typing import Any

from bench import stopwatch, threads
from bench.case import Outcome, Setting, WrongResultError
from bench.stage import Handler, Program, Send, failed

END = object()
PATIENCE = 200.0


class PykkaStage:
    """Threads of this process."""

    end = END

    def __init__(self) -> None:
        self._pykka: Any = import_module("pykka")
        self.send: Send = self._pykka.ActorRef.tell
        self.finished = Event()
        self.failure: BaseException | None = None
        self.ended = Semaphore(0)

    def spawn(self, handler: Handler, room: int = 1024) -> threads.Ref:  # noqa: ARG002  # unbounded
        def on_receive(me: Any, data: Any) -> None:
            if handler(me, data) is END:
                me.on_stop = self.ended.release
                me.stop()

        def on_failure(_me: Any, _kind: type, error: BaseException, _trace: object) -> None:
            self.failure = error
            self.finished.set()

        return threads.kind(on_receive, on_failure).start()

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
    ended = 0
    # A thread ends a little after its last message.
    while (
        is_finished
        and stage.failure is None
        and ended < (play.ends or 0)
        and stage.ended.acquire(timeout=PATIENCE)
    ):
        ended += 1
    elapsed = stopwatch.since(start)
    stage.close()
    if stage.failure is not None:
        raise failed(stage.failure)
    if not is_finished:
        raise WrongResultError(f"it has not finished within {PATIENCE:.0f} s")
    return play.outcome(elapsed, ended)
