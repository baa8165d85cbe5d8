"""Shutting a loop down: in phases, in order, in time, with a report.

    async with Loop() as loop:
        shop = loop.spawn(Shop)
        shutdown = GracefulShutdown(loop, deadline_ms=10_000)

        @shutdown.on(ShutdownPhase.INTAKE)
        async def close_the_door() -> None:
            server.close()
            await server.wait_closed()

        with shutdown.on_signals():
            print(await shutdown.wait())

Four phases: INTAKE (nothing more comes in), DRAIN (what came in is handled), STOP (actors end, the youngest first), KILL (whoever is left).
It works the same around `loop.run()`. What it promises is in `docs/semantics.md`, how to use it in `docs/howto/stopping.md`.

How the room is laid out: `shutdown` is what a program uses, `course` goes through the phases once. `company` is everybody on the loop, `hooks` what a
program does besides; `limits` says how long each phase may take, `waiter` waits without looking, `report` is how it went, `vocabulary` has the words.
"""

from bandstand.shutdown.report import Busy as Busy
from bandstand.shutdown.report import PhaseReport as PhaseReport
from bandstand.shutdown.report import ShutdownReport as ShutdownReport
from bandstand.shutdown.shutdown import GracefulShutdown as GracefulShutdown
from bandstand.shutdown.vocabulary import PhaseEnd as PhaseEnd
from bandstand.shutdown.vocabulary import ShutdownPhase as ShutdownPhase

__all__ = (
    "Busy",
    "GracefulShutdown",
    "PhaseEnd",
    "PhaseReport",
    "ShutdownPhase",
    "ShutdownReport",
)
