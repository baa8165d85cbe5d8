"""Thespian as a stage: its `simpleSystemBase`, which runs every actor in the caller's thread, called by its address.

What is comparable: it is the only base of Thespian that stays in one process and one thread, as bandstand's loop does; its
other bases have a process for each actor and cost a hundred times as much. What is not: it has neither bounds nor lanes, and
waiting messages of all actors are one list whose front is popped, so a message gets dearer the more of them wait.

An actor of Thespian sends by a method of itself. All messages here are sent by one actor, the conductor, so that `send` is
that method and no wrapper. A handler costs one frame more, which is little beside Thespian's own microseconds.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from bench import stopwatch
from bench.case import Outcome, Setting
from bench.stage import Handler, Play, Program, Send, failed

END = object()
BEGIN = object()


def refusal() -> str | None:
    """Say why this process cannot measure Thespian; None if it can."""
    try:
        import_module("thespian.actors")
    except ImportError:
        return "Thespian is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


def make_system() -> Any:
    """Make a system of its own in this thread, which leaves logging as it is."""
    return import_module("thespian.actors").ActorSystem(
        "simpleSystemBase", logDefs=False, transientUnique=True
    )


class ThespianStage:
    """A system in this thread, and the actor in whose name all is done."""

    end = END

    def __init__(self) -> None:
        actors: Any = import_module("thespian.actors")
        self._system = make_system()
        self._exit: Any = actors.ActorExitRequest
        self._handler: Handler | None = None
        self._play: Play | None = None
        self.failure: Exception | None = None
        self.ended = 0
        self._conductor: Any = None
        conductor = {"__init__": self._seat(), "receiveMessage": self._conduct}
        player = {"__init__": self._cast(), "receiveMessage": self._receive()}
        self._player = type("Player", (actors.Actor,), player)
        self._address: Any = self._system.createActor(type("Conductor", (actors.Actor,), conductor))
        self.send: Send = self._own_send()

    def _own_send(self) -> Any:
        return self._conductor.send

    def _seat(self) -> Any:
        def enter(me: Any) -> None:
            self._conductor = me

        return enter

    def _cast(self) -> Any:
        def enter(me: Any) -> None:
            # Thespian makes an actor before `createActor` returns, and passes it nothing.
            me.handler = self._handler

        return enter

    def _receive(self) -> Any:
        def receive(me: Any, message: Any, _sender: Any) -> None:
            try:
                if me.handler(me, message) is END:
                    # What tells it to end is delivered to it too.
                    me.handler = self._leave
                    me.send(me.myAddress, self._exit())
            except Exception as error:  # noqa: BLE001  # whatever it is, it costs the figure
                # Thespian would try the message twice more.
                self.failure = self.failure or error

        return receive

    def _leave(self, _me: Any, message: Any) -> None:
        self.ended += isinstance(message, self._exit)

    def _conduct(self, message: Any, _sender: Any) -> None:
        # It is told of its children's ends too.
        if message is BEGIN and self._play is not None:
            self._play.begin()

    def spawn(self, handler: Handler, room: int = 1024) -> Any:  # noqa: ARG002  # unbounded
        self._handler = handler
        return self._conductor.createActor(self._player)

    def finish(self) -> None:
        """It runs until nothing is left to do, and so finds out by itself."""

    def run(self, play: Play) -> None:
        """Have the conductor begin; that returns when no message is left."""
        self._play = play
        self._system.tell(self._address, BEGIN)

    def close(self) -> None:
        self._system.shutdown()


def play(program: Program, setting: Setting) -> Outcome:
    """Play a program until no message is left."""
    stage = ThespianStage()
    play = program(stage, setting)
    start = stopwatch.start()
    stage.run(play)
    elapsed = stopwatch.since(start)
    stage.close()
    if stage.failure is not None:
        raise failed(stage.failure)
    return play.outcome(elapsed, stage.ended)
