"""The phases of a shutdown: their order, what each does, and what each guarantees."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bandstand.actor import Actor, ActorSystem, child, id_of
from bandstand.core import ActorId, Context
from bandstand.errors import (
    ActorNotLocalError,
    InvalidArgumentError,
    LoopBusyError,
    LoopClosedError,
    NoSuchActorError,
    WrongThreadError,
)
from bandstand.pool import OnDeath, pooled
from bandstand.shutdown import Busy, GracefulShutdown, PhaseEnd, ShutdownPhase
from bandstand.supervision import Backoff, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.core.support import idle
from tests.shutdown.actors import Book, PingPong, Slow, Stubborn, Worker
from tests.shutdown.conftest import Drive, LoopMaker


@pytest.fixture
def book(clock: VirtualClock) -> Book:
    return Book(clock)


def at(loop: ActorSystem, ms: float, deed: object) -> None:
    """Have something done later, by an actor of its own, which ends with it."""

    def act(ctx: Context[None], function: object) -> None:
        assert callable(function)
        function()
        ctx.loop.stop_actor(ctx.self_id)

    loop.send_after(loop.spawn_raw(act, name="alarm"), ms / 1000, deed)


# --- order -----------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G261", "G262")
def test_accepted_messages_are_handled_before_the_stop(
    make_loop: LoopMaker, drive: Drive, book: Book
) -> None:
    loop = make_loop()
    back = loop.spawn(Worker, book, "back")
    front = loop.spawn(Worker, book, "front", to=back)
    shutdown = GracefulShutdown(loop)
    for number in range(5):
        front.work(str(number))
    shutdown.begin("enough")
    report = drive(loop, shutdown)
    assert [word for word in book.words if word.startswith("back:")] == [f"back: {n}" for n in range(5)]
    assert book.words[-2:] == ["front ends", "back ends"]
    assert report.is_clean
    assert report.reason == "enough"
    assert [each.phase for each in report.phases] == list(ShutdownPhase)
    assert {each.end for each in report.phases} == {PhaseEnd.COMPLETE}
    assert report.duration * 1000 == report.of(ShutdownPhase.DRAIN).duration * 1000 == 60
    assert loop.statistics().alive == 0


@pytest.mark.guarantee("G261")
def test_hooks_run_in_order(make_loop: LoopMaker, drive: Drive, book: Book) -> None:
    loop = make_loop()
    worker = loop.spawn(Worker, book)
    worker.work("x")
    shutdown = GracefulShutdown(loop)

    for phase in reversed(ShutdownPhase):
        for name in ("first", "second"):

            @shutdown.on(phase)
            async def hook(what: str = f"{phase.value} {name}") -> None:
                await asyncio.sleep(0)
                book.note(what)

    @shutdown.on(ShutdownPhase.STOP)
    def plain() -> None:
        book.note("stop third, a function")

    shutdown.begin()
    assert drive(loop, shutdown).is_clean
    words = [word for word in book.words if word != "worker: x"]
    assert words == [
        "intake first",
        "intake second",
        "drain first",
        "drain second",
        "worker ends",
        "stop third, a function",
        "stop second",
        "stop first",
        "kill second",
        "kill first",
    ]
    assert book.words.index("worker: x") > book.words.index("intake first")


@pytest.mark.guarantee("G261")
def test_a_failing_hook_does_not_stop_the_shutdown(
    make_loop: LoopMaker, drive: Drive, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    loop.spawn(Worker, book).work("x")
    shutdown = GracefulShutdown(loop, hook_timeout=0.05)

    @shutdown.on(ShutdownPhase.INTAKE)
    def raises() -> None:
        raise ValueError("a hook")

    @shutdown.on(ShutdownPhase.INTAKE)
    def looks_at_a_task_that_was_cancelled() -> None:
        raise asyncio.CancelledError

    @shutdown.on(ShutdownPhase.INTAKE)
    async def raises_later() -> None:
        await asyncio.sleep(0.001)
        raise ValueError("a later hook")

    @shutdown.on(ShutdownPhase.INTAKE)
    async def is_late() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            book.note("cleaned up")

    @shutdown.on(ShutdownPhase.INTAKE)
    async def is_stubborn() -> None:
        for _ in range(10):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                book.note("ignored")

    @shutdown.on(ShutdownPhase.INTAKE)
    def is_well() -> None:
        book.note("well")

    shutdown.begin()
    report = drive(loop, shutdown)
    assert report.of(ShutdownPhase.INTAKE).failed_hooks == (
        "raises",
        "looks_at_a_task_that_was_cancelled",
        "raises_later",
        "is_late",
        "is_stubborn",
    )
    assert report.of(ShutdownPhase.INTAKE).end is PhaseEnd.COMPLETE
    assert not report.is_clean
    assert "worker: x" in book.words
    assert {"well", "cleaned up", "ignored"} <= set(book.words)
    assert report.duration * 1000 <= 1 + 50 + 50 + 100 + 10
    for part in ("a hook", "a later hook", "is_late took 50 ms and was cancelled", "is left behind"):
        assert part in caplog.text


@pytest.mark.guarantee("G261", "G265")
def test_a_hurried_shutdown_starts_no_async_hook(
    make_loop: LoopMaker, drive: Drive, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)

    @shutdown.on(ShutdownPhase.KILL)
    async def takes_its_time() -> None:
        book.note("begun")

    @shutdown.on(ShutdownPhase.KILL)
    def is_plain() -> None:
        book.note("plain")

    shutdown.begin()
    shutdown.hurry()
    report = drive(loop, shutdown)
    assert report.of(ShutdownPhase.KILL).failed_hooks == ("takes_its_time",)
    assert book.words == ["plain"]
    assert "no time left for the hook takes_its_time" in caplog.text


@pytest.mark.guarantee("G262")
def test_an_intake_is_closed_and_drained(make_loop: LoopMaker, drive: Drive, book: Book) -> None:
    loop = make_loop()
    back = loop.spawn(Worker, book, "back", ms=1)
    door = loop.spawn(Worker, book, "door", ms=1, to=back)
    shutdown = GracefulShutdown(loop)
    shutdown.intake(door)
    refused: list[str] = []

    @shutdown.on(ShutdownPhase.DRAIN)
    def too_late() -> None:
        with pytest.raises(NoSuchActorError, match="accepts no more"):
            door.work("too late")
        back.work("still open")
        refused.append("refused")

    for number in range(3):
        door.work(str(number))
    shutdown.begin()
    report = drive(loop, shutdown)
    assert refused == ["refused"]
    assert report.is_clean
    assert sorted(word for word in book.words if word.startswith("back:")) == [
        *(f"back: {number}" for number in range(3)),
        "back: still open",
    ]


@pytest.mark.guarantee("G262")
def test_wrong_intakes_are_refused(make_loop: LoopMaker, book: Book) -> None:
    loop, other = make_loop(), make_loop()
    shutdown = GracefulShutdown(loop)
    boss = spawn_supervisor(loop, SupervisorSpec(children=[child("worker").of(Worker, book)]), name="boss")
    with pytest.raises(InvalidArgumentError, match="started again"):
        shutdown.intake(boss.handle(Worker, "worker"))
    with pytest.raises(ActorNotLocalError):
        shutdown.intake(other.spawn_raw(idle))
    with pytest.raises(InvalidArgumentError, match="not an actor"):
        shutdown.intake("the door")  # type: ignore[arg-type]
    shutdown.intake(loop.spawn_raw(idle), loop.spawn(Worker, book))
    shutdown.drain_only(boss, boss.handle(Worker, "worker"))


# --- drain -------------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G262")
def test_drain_only_waits_for_chosen_actors(make_loop: LoopMaker, drive: Drive, book: Book) -> None:
    loop = make_loop()
    loop.spawn(PingPong).ping()
    worker = loop.spawn(Worker, book)
    shutdown = GracefulShutdown(loop)
    shutdown.drain_only(worker)
    for number in range(4):
        worker.work(str(number))
    shutdown.begin()
    report = drive(loop, shutdown)
    assert (report.of(ShutdownPhase.DRAIN).end, report.of(ShutdownPhase.DRAIN).duration * 1000) == (
        PhaseEnd.COMPLETE,
        40,
    )


@pytest.mark.guarantee("G262")
@pytest.mark.parametrize("on_death", list(OnDeath))
def test_messages_of_a_pool_wait_for_a_restart(
    make_loop: LoopMaker, drive: Drive, book: Book, on_death: OnDeath
) -> None:
    loop = make_loop()
    backoff = Backoff(initial=0.5)
    pool = pooled(loop, 1, on_death=on_death, max_tries=1, backoff=backoff).spawn(Worker, book)
    shutdown = GracefulShutdown(loop)
    pool.handle.work("a")
    pool.handle.fail()
    pool.handle.work("b")
    at(loop, 100, shutdown.begin)
    report = drive(loop, shutdown)
    assert [word for word in book.words if ":" in word] == ["worker: a", "worker: b"]
    assert (report.of(ShutdownPhase.DRAIN).end, report.dead_letters) == (PhaseEnd.COMPLETE, 0)


@pytest.mark.guarantee("G264")
@pytest.mark.parametrize("between", [0, 1])
def test_messages_of_on_stop_to_older_actors_are_handled(
    make_loop: LoopMaker, drive: Drive, book: Book, between: int
) -> None:
    class Farewell(Actor):
        def __init__(self, to: Slow) -> None:
            self.to = to

        def on_stop(self, reason: object, cause: object, /) -> None:
            self.to.work("farewell")

    loop = make_loop()
    older = loop.spawn(Slow, book, "older", 0)
    for _ in range(between):
        loop.spawn(Slow, book, "between", 20)
    loop.spawn(Farewell, older)
    shutdown = GracefulShutdown(loop)
    shutdown.begin()
    assert drive(loop, shutdown).is_clean
    words = [word for word in book.words if not word.startswith("between")]
    assert words == ["older: farewell", "older begins to end", "older ends"]


@pytest.mark.guarantee("G264")
def test_a_supervisor_stops_its_children_in_its_own_order(
    make_loop: LoopMaker, drive: Drive, book: Book
) -> None:
    loop = make_loop()
    spec = SupervisorSpec(
        children=[child(name).of(Slow, book, name, 10) for name in ("first", "second", "third")]
    )
    spawn_supervisor(loop, spec, name="boss")
    loop.spawn(Slow, book, "youngest", 10)
    shutdown = GracefulShutdown(loop)
    shutdown.begin()
    report = drive(loop, shutdown)
    assert report.is_clean
    assert report.of(ShutdownPhase.STOP).duration * 1000 == 40
    ends = [word for word in book.words if not word.endswith("begins to end")]
    assert ends == ["youngest ends", "third ends", "second ends", "first ends"]
    assert loop.events.counts().restarts == 0


@pytest.mark.guarantee("G263", "G264")
def test_a_hanging_actor_is_killed(
    make_loop: LoopMaker, drive: Drive, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    loop.spawn(Slow, book, "older", 10)
    stubborn = loop.spawn(Stubborn, book)
    stubborn.work()
    shutdown = GracefulShutdown(loop, drain_timeout=0, actor_timeout=0.3, stop_timeout=1.0)
    at(loop, 5, shutdown.begin)
    report = drive(loop, shutdown)
    assert [busy.name for busy in report.killed] == ["Stubborn"]
    assert report.of(ShutdownPhase.STOP).end is PhaseEnd.TIMED_OUT
    assert report.of(ShutdownPhase.STOP).duration * 1000 == 1000
    assert report.of(ShutdownPhase.STOP).left == (Busy("Stubborn", 0, is_at_work=True),)
    assert (315, "older ends") in book.entries
    assert loop.statistics().alive == 0
    assert "killed actors that had not ended in time: Stubborn (at work)" in caplog.text
    assert "has no supervisor" not in caplog.text, "it is said once"


# --- once ----------------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G265")
def test_a_second_shutdown_joins_the_first(make_loop: LoopMaker, clock: VirtualClock, book: Book) -> None:
    loop = make_loop()
    calls: list[str] = []

    async def main() -> None:
        async with loop:
            loop.spawn(Worker, book, ms=50).work("x")
            shutdown = GracefulShutdown(loop)
            shutdown.on(ShutdownPhase.INTAKE)(lambda: calls.append("intake"))
            assert (shutdown.phase, shutdown.report) == (None, None)
            first = asyncio.create_task(shutdown.run("first"))
            waiting = asyncio.create_task(shutdown.wait())
            await asyncio.sleep(0.01)
            assert shutdown.phase is ShutdownPhase.DRAIN
            second = asyncio.create_task(shutdown.run("second"))
            shutdown.begin("third")
            first.cancel()
            reports = [await second, await waiting]
            assert first.cancelled(), "it only waits no more"
            reports.append(await shutdown.run("after it is over"))
            assert {id(report) for report in reports} == {id(shutdown.report)}
            assert reports[0].reason == "first"
            assert shutdown.phase is None

    clock.run(main())
    assert calls == ["intake"]
    assert "worker: x" in book.words


@pytest.mark.guarantee("G265")
def test_an_actor_may_begin_a_shutdown(make_loop: LoopMaker, drive: Drive) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)
    refused: list[LoopBusyError] = []

    async def tired(ctx: Context[None], data: object) -> None:
        for wait in (shutdown.run, shutdown.wait):
            with pytest.raises(LoopBusyError, match="its own end") as caught:
                await wait()
            refused.append(caught.value)
        shutdown.begin("tired")

    loop.send(loop.spawn_raw(tired), None)
    report = drive(loop, shutdown)
    assert (report.reason, report.is_clean, len(refused)) == ("tired", True, 2)


@pytest.mark.guarantee("G265")
def test_a_shutdown_needs_the_running_loop(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop()

    async def main() -> None:
        with pytest.raises(InvalidArgumentError, match="async with loop"):
            await GracefulShutdown(loop).run()

    clock.run(main())


@pytest.mark.guarantee("G265")
def test_a_shutdown_needs_run_or_async_with(make_loop: LoopMaker, caplog: pytest.LogCaptureFixture) -> None:
    loop = make_loop()
    GracefulShutdown(loop).begin()
    loop.poll_once()
    assert "driven by hand" in caplog.text


@pytest.mark.guarantee("G265")
def test_the_end_of_the_loop_ends_waits(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop()

    async def main() -> None:
        async with loop:
            shutdown = GracefulShutdown(loop)
            asyncio.get_running_loop().call_later(0.1, loop.request_stop)
            with pytest.raises(LoopClosedError, match="was not shut down"):
                await shutdown.wait()
            with pytest.raises(LoopClosedError):
                await shutdown.run()

    clock.run(main())


@pytest.mark.guarantee("G265")
def test_hooks_run_if_the_loop_ends_first(make_loop: LoopMaker, clock: VirtualClock, book: Book) -> None:
    loop = make_loop()

    async def main() -> None:
        async with loop:
            loop.spawn(Worker, book, ms=500).work("x")
            shutdown = GracefulShutdown(loop)

            @shutdown.on(ShutdownPhase.STOP)
            async def close() -> None:
                await asyncio.sleep(0.01)
                book.note("closed")

            asyncio.get_running_loop().call_later(0.1, loop.request_stop)
            report = await shutdown.run()
            assert report.of(ShutdownPhase.DRAIN).end is PhaseEnd.LOOP_ENDED
            assert report.of(ShutdownPhase.STOP).end is PhaseEnd.LOOP_ENDED
            assert not report.is_clean

    clock.run(main())
    assert "closed" in book.words


class Fickle:
    """Stands for an actor, until the shutdown has begun."""

    def __init__(self, actor: ActorId) -> None:
        self.actor: ActorId | None = actor

    def __actor_id__(self) -> ActorId:
        if self.actor is None:
            raise OSError("who is that?")
        return self.actor


@pytest.mark.guarantee("G265")
def test_a_failed_shutdown_ends_the_loop(
    make_loop: LoopMaker, clock: VirtualClock, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    fickle = Fickle(id_of(loop.spawn(Worker, book)))
    shutdown = GracefulShutdown(loop)
    shutdown.drain_only(fickle)
    fickle.actor = None

    async def main() -> None:
        async with loop:
            for wait in (shutdown.run, shutdown.wait):
                with pytest.raises(OSError, match="who is that"):
                    await asyncio.wait_for(wait(), 3600)
            assert loop.kernel.is_closed

    clock.run(main())
    assert shutdown.report is None
    assert "the loop is asked to stop at once" in caplog.text


@pytest.mark.guarantee("G265")
def test_a_cancelled_shutdown_cancels_its_hook(make_loop: LoopMaker, clock: VirtualClock, book: Book) -> None:
    loop = make_loop()
    shutdown = GracefulShutdown(loop)

    @shutdown.on(ShutdownPhase.INTAKE)
    async def waits() -> None:
        try:
            await asyncio.sleep(1)
        except asyncio.CancelledError:
            book.note("cancelled")
            raise

    async def main() -> None:
        async with loop:
            shutdown.begin()
            await asyncio.sleep(0.01)
            (task,) = (each for each in asyncio.all_tasks() if each.get_name() == "bandstand shutdown")
            task.cancel()
            for _ in range(2):
                with pytest.raises(LoopClosedError, match="cancelled the shutdown's own task"):
                    await asyncio.wait_for(shutdown.wait(), 3600)

    clock.run(main())
    assert book.words == ["cancelled"]


@pytest.mark.guarantee("G265")
def test_another_thread_can_begin_a_shutdown(make_loop: LoopMaker, drive: Drive) -> None:
    import threading

    loop = make_loop()
    shutdown = GracefulShutdown(loop)
    actor = loop.spawn_raw(idle)
    refused: list[WrongThreadError] = []

    def elsewhere() -> None:
        for deed in (shutdown.intake, shutdown.drain_only):
            try:
                deed(actor)
            except WrongThreadError as error:
                refused.append(error)
        shutdown.begin("from elsewhere")

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert drive(loop, shutdown).reason == "from elsewhere"
    assert len(refused) == 2


@pytest.mark.guarantee("G265")
def test_a_hurried_shutdown_waits_for_nothing(make_loop: LoopMaker, drive: Drive, book: Book) -> None:
    loop = make_loop()
    worker = loop.spawn(Worker, book, ms=1000)
    worker.work("x")
    worker.work("y")
    shutdown = GracefulShutdown(loop)

    @shutdown.on(ShutdownPhase.KILL)
    def last() -> None:
        book.note("last")

    shutdown.begin()
    at(loop, 50, shutdown.hurry)
    report = drive(loop, shutdown)
    assert report.duration * 1000 == 50
    assert report.of(ShutdownPhase.DRAIN).end is PhaseEnd.HURRIED
    assert [busy.name for busy in report.killed] == ["Worker"]
    assert report.dead_letters == 1
    assert book.words == ["last"], "not even its on_stop"


# --- words -----------------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G266")
def test_busy_actors_are_logged_each_second(
    make_loop: LoopMaker, drive: Drive, book: Book, caplog: pytest.LogCaptureFixture
) -> None:
    loop = make_loop()
    worker = loop.options(name="ann").spawn(Worker, book, ms=1200)
    for number in range(3):
        worker.work(str(number))
    shutdown = GracefulShutdown(loop)
    shutdown.begin("SIGTERM")
    with caplog.at_level(logging.INFO, logger="bandstand.shutdown"):
        drive(loop, shutdown)
    lines = [entry.getMessage() for entry in caplog.records if "not done after" in entry.getMessage()]
    assert [line.partition("shutdown, ")[2] for line in lines] == [
        "drain: 1 not done after 1000 ms, 29000 ms left: ann (2 waiting)",
        "drain: 1 not done after 2000 ms, 28000 ms left: ann (1 waiting)",
        "drain: 1 not done after 3000 ms, 27000 ms left: ann (at work)",
    ]
    assert "shutdown begins (SIGTERM)" in caplog.text
    assert "shutdown (SIGTERM): clean, 3600 ms, 0 dead letters" in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"deadline": 0},
        {"deadline": -1},
        {"drain_timeout": "1"},
        {"stop_timeout": float("nan")},
        {"hook_timeout": -1},
        {"progress_period": 0},
        {"intake_timeout": True},
        {"actor_timeout": float("inf")},
    ],
    ids=repr,
)
def test_wrong_limits_are_refused(make_loop: LoopMaker, wrong: dict[str, float]) -> None:
    with pytest.raises(InvalidArgumentError, match=f"GracefulShutdown: {next(iter(wrong))} is"):
        GracefulShutdown(make_loop(), **wrong)


def test_wrong_phases_and_hooks_are_refused(make_loop: LoopMaker) -> None:
    shutdown = GracefulShutdown(make_loop())
    with pytest.raises(InvalidArgumentError, match=r"ShutdownPhase\.INTAKE"):
        shutdown.on("intake")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="without arguments"):
        shutdown.on(ShutdownPhase.INTAKE)(None)  # type: ignore[type-var]
    with pytest.raises(InvalidArgumentError, match="pass a Loop"):
        GracefulShutdown("loop")  # type: ignore[arg-type]
