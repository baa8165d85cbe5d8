"""xoscar as a stage: one pool in this process, its actors told by local references, which is the fastest it has.

What is comparable: a local reference goes by no socket and copies nothing; each message is a task of the event loop that
takes the actor's lock and calls its method. What is not: xoscar is made for many processes, and that is not measured here;
it has neither bounds nor lanes. It rides uvloop, as its own worker processes do by default.

`tell` makes its task at once and returns something to await that does no more than give way. Handlers here are no coroutines,
so it is closed instead, which is quicker. That is a frame more for each send, and another for each handler: little beside the
microseconds of a task.

Actors are made by `await xo.create_actor(...)`, and a program makes them from handlers that cannot await: the making goes on
in a task, and what is sent before the actor is there waits at its address. So many may be made at the same time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from importlib import import_module
from typing import Any

from bench import queues, stopwatch
from bench.case import Outcome, Setting
from bench.stage import Handler, Program, failed

END = object()
HERE = "127.0.0.1"


def refusal() -> str | None:
    """Say why this process cannot measure xoscar; None if it can."""
    try:
        import_module("xoscar")
        import_module("uvloop")
    except ImportError as error:
        return f"{error.name} is not installed; `make bench` puts it into .venvs/bench where it can"
    return None


async def local(kind: type, *arguments: object, address: str) -> Any:
    """Make an actor in this process and take its local reference."""
    xo: Any = import_module("xoscar")
    return await xo.actor_ref(await xo.create_actor(kind, *arguments, address=address))


class Address:
    """Whom a program sends to. Once the actor is there, `tell` is that of its reference."""

    def __init__(self) -> None:
        self.tell: Any = self._keep
        self._early: list[Any] = []

    def _keep(self, data: Any) -> Address:
        self._early.append(data)
        return self

    def close(self) -> None:
        """Nothing: what was kept awaits no one."""

    def arrive(self, method: Any) -> None:
        """The actor is there: it gets what has waited."""
        self.tell = method.tell
        for data in self._early:
            send(self, data)
        self._early.clear()


def send(who: Address, data: Any) -> None:
    who.tell(data).close()


class XoscarStage:
    """A pool in this process."""

    end = END

    def __init__(self, address: str) -> None:
        self._address = address
        self._xo: Any = import_module("xoscar")
        self.send = send
        self.ended = 0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()
        stage = self

        def enter(me: Any, handler: Handler) -> None:
            me.handler = handler

        def on(me: Any, data: Any) -> None:
            try:
                if me.handler(me, data) is END:
                    stage.start(stage.leave(me.ref()))
            except Exception as error:  # noqa: BLE001  # whatever it is, it costs the figure
                stage.fail(error)

        self._player: Any = type("Player", (self._xo.Actor,), {"__init__": enter, "on": on})

    def spawn(self, handler: Handler, room: int = 1024) -> Address:  # noqa: ARG002  # unbounded
        who = Address()
        self.start(self._enter(who, handler))
        return who

    async def _enter(self, who: Address, handler: Handler) -> None:
        who.arrive((await local(self._player, handler, address=self._address)).on)

    async def leave(self, ref: Any) -> None:
        await self._xo.destroy_actor(ref)
        self.ended += 1

    def start(self, body: Coroutine[Any, Any, None]) -> None:
        """Have something done beside the handlers."""
        task = asyncio.get_running_loop().create_task(body)
        self._tasks.add(task)
        task.add_done_callback(self._left)

    def _left(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and isinstance(error := task.exception(), Exception):
            self.fail(error)

    def fail(self, error: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(failed(error))

    def finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)

    async def settle(self) -> None:
        """Wait until whoever was to be made is there, and whoever was to end has ended."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)


def play(program: Program, setting: Setting) -> Outcome:
    """Play a program on the setting's event loop until it says that it has finished."""
    return queues.run(setting, _play(program, setting))


async def _play(program: Program, setting: Setting) -> Outcome:
    xo: Any = import_module("xoscar")
    async with await xo.create_actor_pool(HERE, n_process=0) as pool:
        stage = XoscarStage(pool.external_address)
        play = program(stage, setting)
        await stage.settle()
        start = stopwatch.start()
        play.begin()
        await stage.finished
        await stage.settle()
        elapsed = stopwatch.since(start)
        return play.outcome(elapsed, stage.ended)
