"""Graceful shutdown of an actor system: in phases, within a deadline, with a report.

    async with ActorSystem() as system:
        shop = system.spawn(Shop)
        shutdown = GracefulShutdown(system, deadline=10)

        @shutdown.on(ShutdownPhase.INTAKE)
        async def close_server() -> None:
            server.close()
            await server.wait_closed()

        with shutdown.on_signals():
            print(await shutdown.wait())

Four phases: INTAKE (nothing more comes in), DRAIN (what came in is handled), STOP (actors end, the youngest first), KILL (the actors that are left).
It works the same around `system.run()`. The guarantees are in `docs/guarantees.md`, the guide is `docs/guides/shutdown.md`.
"""

# Modules: `shutdown` is the public object, `shutdown_run` runs the phases within their limits, `report` has the phases
# and the result.

from bandstand.shutdown.report import Busy as Busy
from bandstand.shutdown.report import PhaseEnd as PhaseEnd
from bandstand.shutdown.report import PhaseReport as PhaseReport
from bandstand.shutdown.report import ShutdownPhase as ShutdownPhase
from bandstand.shutdown.report import ShutdownReport as ShutdownReport
from bandstand.shutdown.shutdown import GracefulShutdown as GracefulShutdown

__all__ = (
    "Busy",
    "GracefulShutdown",
    "PhaseEnd",
    "PhaseReport",
    "ShutdownPhase",
    "ShutdownReport",
)
