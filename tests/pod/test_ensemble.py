"""An ensemble: one incarnation of a pod on an event loop, whoever runs that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from bandstand.actor import Actor, ask, control, data, management
from bandstand.core import LoopConfig
from bandstand.errors import BandstandError, InvalidArgument, PodGone
from bandstand.pod.directory import Directory, directory
from bandstand.pod.ending import Ending
from bandstand.pod.ensemble import Ensemble
from bandstand.pod.place import when_down
from bandstand.pod.registry import registry_of
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pod.vocabulary import PodPhase, WhenDown
from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor
from tests.core.support import Boom, HostFactory, panicker

PATIENCE = 30  # seconds to wait for what must come


class Peers(Directory):
    """Whom the hand needs."""

    lead: Lead


class Lead(Actor):
    """Does what it is told, and notes what it hears, and when a round is over."""

    def __init__(self, book: list[str]) -> None:
        self.book = book

    @data
    def low(self, what: object) -> None:
        self.book.append(f"low {what}")

    @management
    def middle(self, what: object) -> None:
        self.book.append(f"middle {what}")

    @control
    def high(self, what: object) -> None:
        self.book.append(f"high {what}")

    @data
    def crash(self) -> None:
        raise Boom("lead")

    @data
    def leave(self) -> None:
        self.stop()

    @ask
    def seen(self) -> int:
        return len(self.book)

    def on_park(self) -> None:
        self.book.append("parked")


class Hand(Actor):
    """Has a peer."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers

    @ask
    async def pass_on(self, what: str) -> int:
        self.peers.lead.low(what)
        return await self.peers.lead.seen()

    @data
    def leave(self) -> None:
        self.stop()


def spec_of(*roles: RoleSpec, **options: Any) -> TroupeSpec:
    return TroupeSpec(name="Band", pods=(PodSpec(name="stage", roles=roles, **options),))


def lead(book: list[str], **options: Any) -> RoleSpec:
    return RoleSpec(name="lead", kind=Lead, args=(book,), **options)


HAND = RoleSpec(name="hand", kind=Hand, args=(directory(Peers),), is_exposed=True)


async def begun(ensemble: Ensemble) -> asyncio.Task[Ending]:
    """Run an ensemble until it plays, or is over."""
    task = asyncio.create_task(ensemble.run())
    for _ in range(1000):
        if ensemble.phase is not PodPhase.PENDING or task.done():
            return task
        await asyncio.sleep(0)
    raise AssertionError(f"{ensemble.name!r} has not begun")


def phase_of(ensemble: Ensemble) -> PodPhase:
    """By a call: checkers take an attribute that they have seen for what it was."""
    return ensemble.phase


@pytest.fixture
def play(loop_factory: HostFactory) -> Callable[[Coroutine[Any, Any, None]], None]:
    def run(story: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(asyncio.wait_for(story, PATIENCE))

    return run


Play = Callable[[Coroutine[Any, Any, None]], None]


@pytest.mark.spec("S3", "S13")
@pytest.mark.real_time(reason="looks now and then whether all is quiet")
def test_it_plays_until_it_is_stopped_and_handles_what_it_has(play: Play) -> None:
    async def story() -> None:
        book: list[str] = []
        phases: list[PodPhase] = []
        ensemble = Ensemble(
            spec_of(lead(book), HAND), "stage", 1, on_phase=lambda phase, _reason: phases.append(phase)
        )
        task = await begun(ensemble)
        hand = cast("Hand", ensemble.handle("hand"))
        assert await hand.pass_on("hello") > 0
        leader = cast("Lead", ensemble.handle("lead"))
        for n in range(100):
            leader.low(n)
        await ensemble.stop(PATIENCE * 1000)
        ending = await task
        assert ending.phase is PodPhase.COMPLETED
        assert [line for line in book if line.startswith("low")] == [
            "low hello",
            *(f"low {n}" for n in range(100)),
        ]
        assert phases == [PodPhase.RUNNING, PodPhase.TERMINATING, PodPhase.COMPLETED]
        with pytest.raises(PodGone):
            leader.low("late")
        assert ensemble.books().is_balanced
        assert ensemble.books().waiting == 0

    play(story())


class Chatty(Actor):
    """Takes its time, and then has something to say to its peer."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers

    @data
    async def say(self, what: int) -> None:
        await asyncio.sleep(0)
        self.peers.lead.low(what)


@pytest.mark.spec("S1")
@pytest.mark.guarantee("G131")
@pytest.mark.real_time(reason="looks now and then whether all is quiet")
@pytest.mark.parametrize("is_first", [True, False])
def test_a_pod_drains_as_a_whole_what_its_actors_say_to_each_other_too(play: Play, is_first: bool) -> None:
    async def story() -> None:
        book: list[str] = []
        chatty = RoleSpec(name="chatty", kind=Chatty, args=(directory(Peers),))
        roles = (chatty, lead(book)) if is_first else (lead(book), chatty)
        ensemble = Ensemble(spec_of(*roles), "stage", 1)
        task = await begun(ensemble)
        talker = cast("Chatty", ensemble.handle("chatty"))
        for n in range(20):
            talker.say(n)
        stopping = asyncio.create_task(ensemble.stop(PATIENCE * 1000))
        await asyncio.sleep(0)
        # From outside nothing is taken any more: it would wait for somebody to come.
        late = when_down(talker, WhenDown.FAIL)
        assert late.say.try_send(99) is False
        await stopping
        assert (await task).phase is PodPhase.COMPLETED
        assert [line for line in book if line.startswith("low")] == [f"low {n}" for n in range(20)]
        assert ensemble.books().dead == 0

    play(story())


@pytest.mark.spec("S1")
@pytest.mark.guarantee("G131")
@pytest.mark.real_time(reason="a deadline on the event loop's own clock")
def test_what_is_left_when_the_time_is_up_is_dead(play: Play, caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Actor):
        @data
        async def hang(self) -> None:
            await asyncio.Event().wait()

    async def story() -> None:
        ensemble = Ensemble(spec_of(RoleSpec(name="stuck", kind=Stuck)), "stage", 1)
        task = await begun(ensemble)
        stuck = cast("Stuck", ensemble.handle("stuck"))
        stuck.hang()
        stuck.hang()
        await asyncio.sleep(0)
        await ensemble.stop(20)
        assert (await task).reason == "stopped; 1 messages were left"
        assert ensemble.books().is_balanced

    play(story())
    assert "had 20 ms to handle what it had: stopped; 1 messages were left" in caplog.text


@pytest.mark.spec("S5")
@pytest.mark.guarantee("G124")
def test_what_an_incarnation_has_given_to_others_outlives_it(play: Play) -> None:
    class Host(Actor):
        @ask
        def name(self) -> Host:
            return self.me

    async def story() -> None:
        spec = spec_of(RoleSpec(name="host", kind=Host, is_exposed=True))
        registry = registry_of(spec, lambda _ms, _function: lambda: None)
        first = Ensemble(spec, "stage", 1, registry=registry)
        task = await begun(first)
        me = await cast("Host", first.handle("host")).name()
        first.end(Ending(PodPhase.FAILED, "over"))
        await task
        registry.withdraw("stage")
        second = Ensemble(spec, "stage", 2, registry=registry)
        task = await begun(second)
        assert await me.name() == me
        second.end(Ending(PodPhase.FAILED, "over"))
        await task

    play(story())


@pytest.mark.spec("S3")
def test_a_failure_that_nobody_absorbs_fails_the_whole_pod(play: Play) -> None:
    async def story() -> None:
        ensemble = Ensemble(spec_of(lead([]), HAND), "stage", 1)
        task = await begun(ensemble)
        leader = cast("Lead", ensemble.handle("lead"))
        leader.crash()
        leader.low("never handled")
        ending = await task
        assert (ending.phase, ending.actor) == (PodPhase.FAILED, "lead")
        assert isinstance(ending.cause, Boom)
        assert (
            str(ending.error("stage"))
            == "pod 'stage', whose actor 'lead' failed: it failed with Boom('lead')"
        )
        assert ensemble.books().dead == 1
        assert ensemble.books().is_balanced

    play(story())


@pytest.mark.spec("S3")
def test_a_failure_that_a_supervisor_inside_absorbs_does_not(play: Play) -> None:
    class Patron(Actor):
        """Has a supervised child that fails whenever it is spoken to."""

        def on_start(self) -> None:
            spec = SupervisorSpec(children=[ChildSpec("clown", panicker)], intensity=3, period_ms=60_000)
            self.root = spawn_supervisor(ensemble.loop, spec)

        @data
        def poke(self) -> None:
            ensemble.loop.send(self.root.address("clown"), "boo")

        @ask
        def restarts(self) -> int:
            return self.root.children()[0].restarts

    ensemble = Ensemble(spec_of(RoleSpec(name="patron", kind=Patron)), "stage", 1)

    async def story() -> None:
        task = await begun(ensemble)
        patron = cast("Patron", ensemble.handle("patron"))
        for n in range(3):
            patron.poke()
            while await patron.restarts() != n + 1:  # noqa: ASYNC110  # a restart is nobody's event
                await asyncio.sleep(0)
        assert ensemble.phase is PodPhase.RUNNING
        # One time more, and the supervisor gives up: nobody inside is above it.
        patron.poke()
        ending = await task
        assert ending.phase is PodPhase.FAILED
        assert ending.reason.startswith("GaveUp: ")

    play(story())


@pytest.mark.spec("S3")
def test_it_is_completed_when_the_last_of_its_actors_has_ended(play: Play) -> None:
    async def story() -> None:
        ensemble = Ensemble(spec_of(lead([]), HAND), "stage", 1)
        task = await begun(ensemble)
        cast("Lead", ensemble.handle("lead")).leave()
        hand = cast("Hand", ensemble.handle("hand"))
        await asyncio.sleep(0)
        assert not task.done()
        hand.leave()
        assert (await task).phase is PodPhase.COMPLETED

    play(story())


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.spec("S3")
def test_one_that_does_not_start_fails_its_pod(play: Play, is_async: bool) -> None:
    class Lazy(Actor):
        def on_start(self) -> Any:
            if is_async:
                return self.fail()
            raise Boom("bed")

        async def fail(self) -> None:
            await asyncio.sleep(0)
            raise Boom("bed")

    async def story() -> None:
        ensemble = Ensemble(spec_of(RoleSpec(name="lazy", kind=Lazy)), "stage", 1)
        ending = await (await begun(ensemble))
        assert (ending.phase, ending.actor) == (PodPhase.FAILED, "lazy")
        assert "Boom('bed')" in ending.reason

    play(story())


@pytest.mark.spec("S3")
def test_a_constructor_that_raises_fails_its_pod(play: Play) -> None:
    class Odd(Actor):
        def __init__(self) -> None:
            raise Boom("no")

    async def story() -> None:
        ensemble = Ensemble(spec_of(lead([]), RoleSpec(name="odd", kind=Odd)), "stage", 1)
        ending = await (await begun(ensemble))
        assert (ending.phase, ending.actor, ending.reason) == (
            PodPhase.FAILED,
            "odd",
            "its constructor raised Boom('no')",
        )

    play(story())


@pytest.mark.spec("S3")
def test_it_runs_when_all_have_started_and_messages_wait_till_then(play: Play) -> None:
    gate = asyncio.Event()

    class Slow(Actor):
        async def on_start(self) -> None:
            await gate.wait()

        @ask
        def ready(self) -> bool:
            return True

    async def patient(ensemble: Ensemble) -> bool:
        return await cast("Slow", ensemble.handle("slow")).ready()

    async def story() -> None:
        ensemble = Ensemble(spec_of(RoleSpec(name="slow", kind=Slow)), "stage", 1)
        task = asyncio.create_task(ensemble.run())
        for _ in range(20):
            await asyncio.sleep(0)
        assert phase_of(ensemble) is PodPhase.PENDING
        early = asyncio.create_task(patient(ensemble))
        await asyncio.sleep(0)
        assert not early.done()
        gate.set()
        assert await early is True
        assert phase_of(ensemble) is PodPhase.RUNNING
        ensemble.end(Ending(PodPhase.FAILED, "enough"))
        assert (await task).reason == "enough"

    play(story())


# --- rounds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S4", "S7")
@pytest.mark.guarantee("G130")
def test_a_round_goes_by_priority_up_to_the_budget_and_ends_with_the_hook(play: Play) -> None:
    async def story() -> None:
        book: list[str] = []
        limits = LoopConfig(max_msgs_per_actor=3, max_actors_per_tick=1)
        ensemble = Ensemble(spec_of(lead(book), limits=limits), "stage", 1)
        task = await begun(ensemble)
        await asyncio.sleep(0)
        book.clear()
        leader = cast("Lead", ensemble.handle("lead"))
        leader.low(1)
        leader.low(2)
        leader.middle(1)
        leader.high(1)
        leader.high(2)
        assert ensemble.poll_once() is PodPhase.RUNNING
        assert book == ["high 1", "high 2", "middle 1", "parked"]
        assert ensemble.poll_once() is PodPhase.RUNNING
        assert book[4:] == ["low 1", "low 2", "parked"]
        assert ensemble.poll_once() is PodPhase.RUNNING  # at once, with nothing to do
        assert book[7:] == ["parked"]
        leader.crash()
        ensemble.poll_once()
        await task
        assert ensemble.poll_once() is PodPhase.FAILED

    play(story())


@pytest.mark.spec("S7")
@pytest.mark.guarantee("G130")
def test_a_hook_that_raises_is_a_failure_of_its_actor(play: Play) -> None:
    class Grumpy(Actor):
        @data
        def poke(self) -> None:
            pass

        def on_park(self) -> None:
            raise Boom("parking")

    async def story() -> None:
        ensemble = Ensemble(spec_of(RoleSpec(name="grumpy", kind=Grumpy)), "stage", 1)
        ending = await (await begun(ensemble))
        assert (ending.actor, repr(ending.cause)) == ("grumpy", "Boom('parking')")

    play(story())


# --- handles ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S13")
def test_what_is_not_exposed_is_nobody_elses(play: Play) -> None:
    spec = spec_of(lead([]), HAND)
    outside = Ensemble(spec, None, 1)
    assert outside.handle("hand") == outside.handle("hand")
    with pytest.raises(
        InvalidArgument, match="role 'lead' is in pod 'stage' and not exposed: 'outside' cannot"
    ):
        outside.handle("lead")
    with pytest.raises(InvalidArgument, match="has no role 'drums'; it has hand, lead"):
        outside.handle("drums")
    with pytest.raises(InvalidArgument, match="has no pod 'cellar'"):
        Ensemble(spec, "cellar", 1)


@pytest.mark.spec("S5")
def test_what_an_actor_calls_itself_stays_good_over_restarts(play: Play) -> None:
    class Host(Actor):
        @ask
        def name(self) -> Host:
            return self.me

    async def story() -> None:
        spec = spec_of(RoleSpec(name="host", kind=Host, is_exposed=True))
        ensemble = Ensemble(spec, "stage", 1)
        task = await begun(ensemble)
        mine = cast("Host", ensemble.handle("host"))
        me = await mine.name()
        assert me == mine
        ensemble.end(Ending(PodPhase.FAILED, "over"))
        await task
        with pytest.raises(BandstandError, match="has ended for good"):
            await me.name()

    play(story())
