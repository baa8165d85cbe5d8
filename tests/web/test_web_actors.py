"""`WebActors` without a server: the lifespan as a context manager, and the health endpoint as an ASGI application."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from bandstand import Actor, SupervisorSpec, ask, child, tell
from bandstand.errors import (
    BandstandError,
    InvalidArgumentError,
    LoopBusyError,
    LoopClosedError,
    NoSuchChildError,
    RestartLimitError,
    StartError,
    SupervisionError,
)
from bandstand.testing import VirtualClock
from bandstand.web import WebActors, WebHealth, WebStatus


class Till(Actor):
    def __init__(self, log: list[str], fails: bool = False) -> None:
        self.log = log
        self.fails = fails
        self.total = 0

    async def on_start(self) -> None:
        await asyncio.sleep(0)
        if self.fails:
            raise ValueError("no till")
        self.log.append("started")

    def on_stop(self, *_: object) -> None:
        self.log.append(f"stopped with {self.total}")

    @tell
    async def pay(self, amount: int) -> None:
        await asyncio.sleep(0)
        self.total += amount

    @ask
    def sum(self) -> int:
        return self.total

    @tell
    def crash(self) -> None:
        raise RuntimeError("the till is broken")

    @tell
    async def hang(self) -> None:
        await asyncio.Event().wait()


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


def web(log: list[str], *, fails: bool = False, **options: Any) -> WebActors:
    spec = SupervisorSpec(children=[child("till", keep_mailbox=True).of(Till, log, fails)], max_restarts=1)
    options.setdefault("exit_code", None)
    return WebActors(spec, **options)


async def wait_for_failure(actors: WebActors) -> None:
    """Wait until the system has ended with an error."""
    for _ in range(1000):
        if actors.health.error is not None:
            return
        await asyncio.sleep(0)
    raise AssertionError(f"no failure: {actors.health}")


async def answer(actors: WebActors) -> tuple[int, Any]:
    """Return the status code and the body of the health endpoint."""
    sent: list[Any] = []

    async def receive() -> Any:
        raise AssertionError("the endpoint reads nothing")

    async def send(message: Any) -> None:
        sent.append(message)

    await actors.health_app({"type": "lifespan"}, receive, send)
    assert sent == []
    await actors.health_app({"type": "http"}, receive, send)
    assert (b"content-type", b"application/json") in sent[0]["headers"]
    return sent[0]["status"], json.loads(sent[1]["body"])


@pytest.mark.guarantee("G342")
async def test_children_have_started_when_the_server_is_ready_and_drain_when_it_stops() -> None:
    log: list[str] = []
    actors = web(log)
    assert actors.health == WebHealth(WebStatus.DOWN)
    # A framework may start the same application again, for example in tests.
    for _ in range(2):
        log.clear()
        async with actors.lifespan(object()):
            assert log == ["started"]
            assert actors.health == WebHealth(WebStatus.OK, actors=2)
            assert actors.root.name == "root"
            assert actors.system.statistics().alive == 2
            assert not actors.system.kernel.notify_idle, "the start still watches every tick"
            till = actors.handle(Till, "till")
            for _ in range(10):
                till.pay(5)
        assert log == ["started", "stopped with 50"]
        assert actors.health == WebHealth(WebStatus.DOWN)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.guarantee("G342")
async def test_the_health_endpoint_answers_200_while_the_actors_run() -> None:
    actors = web([])
    assert await answer(actors) == (503, {"status": "down", "actors": 0, "restarts": 0, "error": None})
    async with actors.lifespan():
        assert await answer(actors) == (200, {"status": "ok", "actors": 2, "restarts": 0, "error": None})
        till = actors.handle(Till, "till")
        till.crash()
        assert await till.sum() == 0
        assert await answer(actors) == (200, {"status": "ok", "actors": 2, "restarts": 1, "error": None})
    assert (await answer(actors))[0] == 503


@pytest.mark.guarantee("G343")
async def test_when_the_root_supervisor_gives_up_the_endpoint_fails_and_the_lifespan_raises(
    caplog: pytest.LogCaptureFixture,
) -> None:
    actors = web([])
    lifespan = actors.lifespan()
    await lifespan.__aenter__()
    till = actors.handle(Till, "till")
    till.crash()
    while actors.health.is_ok:
        till.crash.try_send()
        await asyncio.sleep(0)
    # The task that runs the lifespan, this one, is not cancelled.
    await wait_for_failure(actors)
    status, body = await answer(actors)
    assert (status, body["status"]) == (503, "failed")
    assert "restart" in body["error"]
    with pytest.raises(LoopClosedError):
        actors.handle(Till, "till")
    with pytest.raises(RestartLimitError):
        await lifespan.__aexit__(None, None, None)
    assert "the actors of the server have ended" in caplog.text
    async with actors.lifespan():
        assert actors.health.is_ok


@pytest.mark.guarantee("G343")
async def test_a_root_supervisor_that_is_stopped_is_a_failure() -> None:
    actors = web([], name="shop")
    lifespan = actors.lifespan()
    await lifespan.__aenter__()
    actors.root.stop()
    await wait_for_failure(actors)
    with pytest.raises(SupervisionError, match="'shop' has ended while the server runs"):
        await lifespan.__aexit__(None, None, None)


@pytest.mark.guarantee("G343")
@pytest.mark.parametrize("ends_by", ["lifespan", "timeout"])
def test_the_event_loop_ends_with_the_exit_code(clock: VirtualClock, ends_by: str) -> None:
    """Without a handler for SIGTERM there is no server to stop, so only the exit remains."""

    async def main() -> None:
        actors = web([], exit_code=7, stop_timeout=60, clock=clock)
        async with actors.lifespan():
            actors.root.stop()
            if ends_by == "timeout":
                await asyncio.sleep(1000)

    start = clock.now_ns()
    with pytest.raises(SystemExit) as caught:
        clock.run(main())
    assert caught.value.code == 7
    assert clock.now_ns() - start == (60e9 if ends_by == "timeout" else 0)


@pytest.mark.guarantee("G342")
def test_actors_that_do_not_stop_are_killed_in_time(clock: VirtualClock) -> None:
    async def main() -> None:
        actors = web([], stop_timeout=2, clock=clock)
        async with actors.lifespan():
            actors.handle(Till, "till").hang()
            await asyncio.sleep(0)
        assert actors.health.status is WebStatus.DOWN

    start = clock.now_ns()
    clock.run(main())
    assert clock.now_ns() - start <= 2.25e9


@pytest.mark.guarantee("G342")
async def test_a_child_that_does_not_start_is_an_error_of_the_start() -> None:
    actors = web([], fails=True)
    with pytest.raises(BandstandError) as caught:
        await actors.lifespan().__aenter__()
    assert isinstance(caught.value, (StartError, RestartLimitError))
    assert actors.health.status is WebStatus.DOWN
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_an_error_of_the_server_stops_the_actors() -> None:
    log: list[str] = []

    async def serve() -> None:
        async with web(log).lifespan():
            raise KeyError("the server")

    with pytest.raises(KeyError, match="the server"):
        await serve()
    assert log == ["started", "stopped with 0"]


async def test_misuse_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="stop_timeout is 0"):
        web([], stop_timeout=0)
    actors = web([])
    for use in (lambda: actors.system, lambda: actors.root, lambda: actors.handle(Till, "till")):
        with pytest.raises(LoopClosedError, match="the server starts them"):
            use()
    async with actors.lifespan():
        with pytest.raises(NoSuchChildError):
            actors.handle(Till, "safe")
        with pytest.raises(LoopBusyError, match="running already"):
            await actors.lifespan().__aenter__()
        assert actors.health.is_ok
