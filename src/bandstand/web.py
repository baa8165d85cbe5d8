"""Actors in a web server: an `ActorSystem` that starts and stops with the server.

    shop = WebActors(SupervisorSpec(children=[child("stock").of(Stock)]))
    app = FastAPI(lifespan=shop.lifespan, routes=[Route("/health", shop.health_app)])

    @app.get("/stock/{item}")
    async def count(item: str) -> int:
        return await shop.handle(Stock, "stock").count(item)

This module needs no web framework: `lifespan` is an async context manager of one argument, as Starlette, FastAPI and Litestar take
it, and `health_app` is an ASGI application.

The system runs in a task of its own. When its root supervisor gives up, only that task is cancelled, and not the task in which the
server runs the lifespan: a server takes an exception there as "no lifespan" and serves on without actors. Instead the program
asks the server to stop, as SIGTERM does, so that open requests are answered. Then it raises SystemExit in the event loop:
servers catch what a lifespan raises, and uvicorn would end by SIGTERM, which service managers take for a normal end.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, MutableMapping
from contextlib import asynccontextmanager, suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, TypeVar, final

from bandstand.actor import ActorSystem
from bandstand.core.logs import SafeLogger
from bandstand.errors import LoopBusyError, LoopClosedError, SupervisionError
from bandstand.errors.formatting import safe_str
from bandstand.errors.validation import Seconds, to_ms
from bandstand.shutdown import GracefulShutdown
from bandstand.supervision import Phase, Spawnable, Supervisor, SupervisorSpec, spawn_supervisor

if TYPE_CHECKING:
    from bandstand.core import Clock, ExitReason, LoopConfig

__all__ = ("WebActors", "WebHealth", "WebStatus")

_logger = SafeLogger("bandstand.web")

_H = TypeVar("_H")

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]


class WebStatus(StrEnum):
    """The state of the actors of a server."""

    DOWN = "down"
    """The server has not started them, or has stopped them."""
    STARTING = "starting"
    OK = "ok"
    STOPPING = "stopping"
    """They handle what they have accepted, and end."""
    FAILED = "failed"
    """The root supervisor has ended; the server is about to end."""


@dataclass(frozen=True, slots=True)
class WebHealth:
    """The health of the actors of a server, as the health endpoint shows it."""

    status: WebStatus
    actors: int = 0
    """The number of actors that are alive."""
    restarts: int = 0
    """How often children were restarted."""
    error: str | None = None
    """Why the root supervisor has ended."""

    @property
    def is_ok(self) -> bool:
        """Whether the actors run."""
        return self.status is WebStatus.OK


@final
class WebActors:
    """An actor system with a root supervisor, which starts and stops with a web server.

    Make one for each application, and pass `lifespan` to the framework. Each server process has its own system. The server
    is ready when all children have started. When the server stops, the actors handle what they have accepted, and end in the
    phases of `GracefulShutdown`. If the root supervisor gives up or ends in any other way, the health endpoint says so, the server
    is asked to stop, and the process ends with `exit_code` at most `stop_timeout` later, or as soon as the server has stopped.

    Args:
        spec: the root supervisor and its children.
        name: the name of the root supervisor, for logs and errors.
        stop_timeout: how long the actors may take to stop, and a server whose root supervisor has given up to finish open requests.
        exit_code: the exit code of the process if the root supervisor gives up. None: leave the process alone, and raise the error
            from the lifespan when the server stops; for tests, and for servers that do not run on the main thread.
        config: the settings of the system.
        clock: the clock of the system.

    Raises:
        InvalidArgumentError: `stop_timeout` is not a duration.
    """

    def __init__(
        self,
        spec: SupervisorSpec,
        *,
        name: str = "root",
        stop_timeout: Seconds = 10.0,
        exit_code: int | None = 1,
        config: LoopConfig | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._spec = spec
        self._name = name
        self._stop_ms = to_ms("stop_timeout", stop_timeout, is_zero_allowed=False)
        self._exit_code = exit_code
        self._config = config
        self._clock = clock
        self._status = WebStatus.DOWN
        self._system: ActorSystem | None = None
        self._root: Supervisor | None = None
        self._failure: Exception | None = None
        self.health_app = _HealthApp(self)
        """An ASGI application that answers with the health as JSON: 200 while the actors run, and 503 otherwise."""

    # -- for the framework ---------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _app: object = None) -> AsyncGenerator[None]:
        """Start the actors, and stop them when the block ends. Pass this method to the framework.

        Raises:
            LoopBusyError: the actors of this object are running already.
            StartError: a child did not start.
            RestartLimitError, SupervisionError: the root supervisor has ended, and `exit_code` is None.
        """
        if self._status is not WebStatus.DOWN:
            raise LoopBusyError("these actors are running already: make one WebActors for each application")
        self._status = WebStatus.STARTING
        self._failure = None
        is_started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        stop = asyncio.Event()
        task = asyncio.create_task(self._run(is_started, stop), name="bandstand web actors")
        try:
            await is_started
            yield
        finally:
            stop.set()
            failure = await task
            self._status = WebStatus.DOWN if failure is None else WebStatus.FAILED
        if failure is not None:
            await self._end_lifespan(failure)

    # -- for endpoints -------------------------------------------------------------------------------------------------

    @property
    def system(self) -> ActorSystem:
        """The running system.

        Raises:
            LoopClosedError: the server has not started it, or has stopped it.
        """
        if self._system is None:
            raise LoopClosedError("the actors do not run: the server starts them with the lifespan")
        return self._system

    @property
    def root(self) -> Supervisor:
        """The root supervisor.

        Raises:
            LoopClosedError: as for `system`.
        """
        if self._root is None:
            raise LoopClosedError("the actors do not run: the server starts them with the lifespan")
        return self._root

    def handle(self, kind: Callable[..., Spawnable[_H]], /, *path: str) -> _H:
        """Return the handle of a child, which stays valid over restarts, as `Supervisor.handle` does.

        Raises:
            LoopClosedError: as for `system`.
            NoSuchChildError, InvalidArgumentError: as for `Supervisor.handle`.
        """
        return self.root.handle(kind, *path)

    @property
    def health(self) -> WebHealth:
        """The health of the actors."""
        system = self._system
        if system is None:
            return WebHealth(self._status, error=None if self._failure is None else safe_str(self._failure))
        return WebHealth(self._status, system.statistics().alive, system.events.counts().restarts)

    # -- the system's own task -----------------------------------------------------------------------------------------

    async def _run(self, is_started: asyncio.Future[None], stop: asyncio.Event) -> Exception | None:
        """Run the system until the server stops. Return the error that it has ended with while the server ran."""
        try:
            async with ActorSystem(self._config, clock=self._clock) as system:
                self._system = system
                self._root = root = spawn_supervisor(system, self._spec, name=self._name)
                system.kernel.actors.on_exit(root.actor, partial(self._root_has_ended, stop))
                await _wait_until_started(system, root)
                self._status = WebStatus.OK
                is_started.set_result(None)
                await stop.wait()
                self._begin_stopping()
                limit = self._stop_ms / 1000
                shutdown = GracefulShutdown(system, deadline=limit, stop_timeout=min(10.0, limit))
                await shutdown.run("the server stops")
        except Exception as error:  # noqa: BLE001  # the lifespan raises it, or the process ends because of it
            if is_started.done():
                self._fail(error)
                return error
            is_started.set_exception(error)
        finally:
            self._system = self._root = None
        return None

    def _begin_stopping(self) -> None:
        if self._status is WebStatus.FAILED:
            raise SupervisionError(
                f"supervisor {self._name!r} has ended while the server runs: it shut down by itself, or was stopped"
            )
        self._status = WebStatus.STOPPING

    def _root_has_ended(self, stop: asyncio.Event, _reason: ExitReason, _cause: BaseException | None) -> None:
        if self._status is WebStatus.OK:
            self._status = WebStatus.FAILED
            # If the supervisor gave up, the system ends with its error. If it ended in another way, `_run` goes on.
            stop.set()

    def _fail(self, error: Exception) -> None:
        self._failure = error
        self._status = WebStatus.FAILED
        if self._exit_code is None:
            _logger.error("the actors of the server have ended: %s", error, exc_info=error)
            return
        _logger.error(
            "the actors of the server have ended, and the process ends with exit code %d: %s",
            self._exit_code,
            error,
            exc_info=error,
        )
        event_loop = asyncio.get_running_loop()
        event_loop.call_later(self._stop_ms / 1000, self._exit)
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and callable(signal.getsignal(signal.SIGTERM)):
            signal.raise_signal(signal.SIGTERM)

    async def _end_lifespan(self, failure: Exception) -> None:
        """End the process, or raise the error, when the server has stopped."""
        if self._exit_code is None:
            self._status = WebStatus.DOWN
            raise failure
        asyncio.get_running_loop().call_soon(self._exit)
        # The server must not get to its normal end. SystemExit cancels this task, as all others.
        with suppress(asyncio.CancelledError):
            await asyncio.get_running_loop().create_future()

    def _exit(self) -> NoReturn:
        raise SystemExit(self._exit_code)


async def _wait_until_started(system: ActorSystem, root: Supervisor) -> None:
    """Wait until every child has started; children whose start is asynchronous begin when the system runs."""
    has_started: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def check() -> None:
        phases = {info.phase for info in root.children()}
        if not phases & {Phase.WAITING, Phase.STARTING} and not has_started.done():
            has_started.set_result(None)

    unwatch = system.runner.watch_ticks(check)
    try:
        check()
        await has_started
    finally:
        unwatch()


@final
class _HealthApp:
    """Answers each HTTP request with the health of the actors."""

    __slots__ = ("_actors",)

    def __init__(self, actors: WebActors) -> None:
        self._actors = actors

    async def __call__(self, scope: _Message, _receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            return
        health = self._actors.health
        headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-store")]
        await send(
            {
                "type": "http.response.start",
                "status": 200 if health.is_ok else 503,
                "headers": headers,
            }
        )
        await send({"type": "http.response.body", "body": json.dumps(asdict(health)).encode()})
