"""An runtime: one incarnation of a pod on an event loop, whoever runs that."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from bandstand.actor import Actor, WhenDown, ask, tell, when_down
from bandstand.core import Lane, LoopConfig
from bandstand.errors import InvalidArgumentError, PodGoneError
from bandstand.pod.address_book import address_book_for
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import PodPhase
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.supervision import ChildSpec, SupervisorSpec, spawn_supervisor
from tests.core.support import Boom, panicker

PATIENCE = 30  # seconds to wait for what must come


class Peers(Directory):
    """Whom the hand needs."""

    lead: Lead


class Lead(Actor):
    """Does what it is told, and notes what it hears, and when a round is over."""

    def __init__(self, book: list[str]) -> None:
        self.book = book

    @tell
    def low(self, what: object) -> None:
        self.book.append(f"low {what}")

    @tell(lane=Lane.MANAGEMENT)
    def middle(self, what: object) -> None:
        self.book.append(f"middle {what}")

    @tell(lane=Lane.CONTROL)
    def high(self, what: object) -> None:
        self.book.append(f"high {what}")

    @tell
    def crash(self) -> None:
        raise Boom("lead")

    @tell
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

    @tell
    def leave(self) -> None:
        self.stop()


def spec_of(*roles: RoleSpec, **options: Any) -> TroupeSpec:
    return TroupeSpec(name="Band", pods=(PodSpec(name="stage", roles=roles, **options),))


def lead(book: list[str], **options: Any) -> RoleSpec:
    return RoleSpec(name="lead", kind=Lead, args=(book,), **options)


HAND = RoleSpec(name="hand", kind=Hand, args=(directory(Peers),), is_exposed=True)


async def begun(runtime: PodRuntime) -> asyncio.Task[PodEnding]:
    """Run an runtime until it plays, or is over."""
    task = asyncio.create_task(runtime.run())
    for _ in range(1000):
        if runtime.phase is not PodPhase.PENDING or task.done():
            return task
        await asyncio.sleep(0)
    raise AssertionError(f"{runtime.name!r} has not begun")


def phase_of(runtime: PodRuntime) -> PodPhase:
    """By a call: checkers take an attribute that they have seen for what it was."""
    return runtime.phase


@pytest.mark.spec("S3", "S13")
@pytest.mark.real_time(reason="looks now and then whether all is quiet")
async def test_it_plays_until_it_is_stopped_and_handles_what_it_has() -> None:
    book: list[str] = []
    phases: list[PodPhase] = []
    runtime = PodRuntime(
        spec_of(lead(book), HAND), "stage", 1, on_phase=lambda phase, _reason: phases.append(phase)
    )
    task = await begun(runtime)
    hand = cast("Hand", runtime.handle("hand"))
    assert await hand.pass_on("hello") > 0
    leader = cast("Lead", runtime.handle("lead"))
    for n in range(100):
        leader.low(n)
    await runtime.stop(PATIENCE * 1000)
    ending = await task
    assert ending.phase is PodPhase.COMPLETED
    assert [line for line in book if line.startswith("low")] == [
        "low hello",
        *(f"low {n}" for n in range(100)),
    ]
    assert phases == [PodPhase.RUNNING, PodPhase.TERMINATING, PodPhase.COMPLETED]
    with pytest.raises(PodGoneError):
        leader.low("late")
    assert runtime.stats().is_balanced
    assert runtime.stats().waiting == 0


class Chatty(Actor):
    """Takes its time, and then has something to say to its peer."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers

    @tell
    async def say(self, what: int) -> None:
        await asyncio.sleep(0)
        self.peers.lead.low(what)


@pytest.mark.spec("S1")
@pytest.mark.guarantee("G131")
@pytest.mark.real_time(reason="looks now and then whether all is quiet")
@pytest.mark.parametrize("is_first", [True, False])
async def test_a_pod_drains_as_a_whole_what_its_actors_say_to_each_other_too(is_first: bool) -> None:
    book: list[str] = []
    chatty = RoleSpec(name="chatty", kind=Chatty, args=(directory(Peers),))
    roles = (chatty, lead(book)) if is_first else (lead(book), chatty)
    runtime = PodRuntime(spec_of(*roles), "stage", 1)
    task = await begun(runtime)
    talker = cast("Chatty", runtime.handle("chatty"))
    for n in range(20):
        talker.say(n)
    stopping = asyncio.create_task(runtime.stop(PATIENCE * 1000))
    await asyncio.sleep(0)
    # From outside nothing is taken any more: it would wait for somebody to come.
    late = when_down(talker, WhenDown.FAIL)
    assert late.say.try_send(99) is False
    await stopping
    assert (await task).phase is PodPhase.COMPLETED
    assert [line for line in book if line.startswith("low")] == [f"low {n}" for n in range(20)]
    assert runtime.stats().dead == 0


@pytest.mark.spec("S1")
@pytest.mark.guarantee("G131")
@pytest.mark.real_time(reason="a deadline on the event loop's own clock")
async def test_what_is_left_when_the_time_is_up_is_dead(caplog: pytest.LogCaptureFixture) -> None:
    class Stuck(Actor):
        @tell
        async def hang(self) -> None:
            await asyncio.Event().wait()

    runtime = PodRuntime(spec_of(RoleSpec(name="stuck", kind=Stuck)), "stage", 1)
    task = await begun(runtime)
    stuck = cast("Stuck", runtime.handle("stuck"))
    stuck.hang()
    stuck.hang()
    await asyncio.sleep(0)
    await runtime.stop(20)
    assert (await task).reason == "stopped; 1 messages were left"
    assert runtime.stats().is_balanced
    assert "did not handle all its messages within 20 ms: stopped; 1 messages were left" in caplog.text


@pytest.mark.spec("S5")
@pytest.mark.guarantee("G124")
async def test_what_an_incarnation_has_given_to_others_outlives_it() -> None:
    class Host(Actor):
        @ask
        def name(self) -> Host:
            return self.me

    spec = spec_of(RoleSpec(name="host", kind=Host, is_exposed=True))
    address_book = address_book_for(spec, lambda _ms, _function: lambda: None)
    first = PodRuntime(spec, "stage", 1, address_book=address_book)
    task = await begun(first)
    me = await cast("Host", first.handle("host")).name()
    first.kill(PodEnding(PodPhase.FAILED, "over"))
    await task
    address_book.withdraw("stage")
    second = PodRuntime(spec, "stage", 2, address_book=address_book)
    task = await begun(second)
    assert await me.name() == me
    second.kill(PodEnding(PodPhase.FAILED, "over"))
    await task


@pytest.mark.spec("S3")
async def test_a_failure_that_nobody_absorbs_fails_the_whole_pod() -> None:
    runtime = PodRuntime(spec_of(lead([]), HAND), "stage", 1)
    task = await begun(runtime)
    leader = cast("Lead", runtime.handle("lead"))
    leader.crash()
    leader.low("never handled")
    ending = await task
    assert (ending.phase, ending.actor) == (PodPhase.FAILED, "lead")
    assert isinstance(ending.cause, Boom)
    assert str(ending.error("stage")) == "pod 'stage', whose actor 'lead' failed: it failed with Boom('lead')"
    assert runtime.stats().dead == 1
    assert runtime.stats().is_balanced


@pytest.mark.spec("S3")
async def test_a_failure_that_a_supervisor_inside_absorbs_does_not() -> None:
    class Patron(Actor):
        """Has a supervised child that fails whenever it is spoken to."""

        def on_start(self) -> None:
            spec = SupervisorSpec(children=[ChildSpec("clown", panicker)], max_restarts=3, period=60.0)
            self.root = spawn_supervisor(runtime.loop, spec)

        @tell
        def poke(self) -> None:
            runtime.loop.send(self.root.address("clown"), "boo")

        @ask
        def restarts(self) -> int:
            return self.root.children()[0].restarts

    runtime = PodRuntime(spec_of(RoleSpec(name="patron", kind=Patron)), "stage", 1)
    task = await begun(runtime)
    patron = cast("Patron", runtime.handle("patron"))
    for n in range(3):
        patron.poke()
        while await patron.restarts() != n + 1:  # noqa: ASYNC110  # a restart is nobody's event
            await asyncio.sleep(0)
    assert runtime.phase is PodPhase.RUNNING
    # One time more, and the supervisor gives up: nobody inside is above it.
    patron.poke()
    ending = await task
    assert ending.phase is PodPhase.FAILED
    assert ending.reason.startswith("RestartLimitError: ")


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.spec("S3")
async def test_one_that_does_not_start_fails_its_pod(is_async: bool) -> None:
    class Lazy(Actor):
        def on_start(self) -> Any:
            if is_async:
                return self.fail()
            raise Boom("bed")

        async def fail(self) -> None:
            await asyncio.sleep(0)
            raise Boom("bed")

    runtime = PodRuntime(spec_of(RoleSpec(name="lazy", kind=Lazy)), "stage", 1)
    ending = await (await begun(runtime))
    assert (ending.phase, ending.actor) == (PodPhase.FAILED, "lazy")
    assert "Boom('bed')" in ending.reason


@pytest.mark.spec("S3")
async def test_it_runs_when_all_have_started_and_messages_wait_till_then() -> None:
    gate = asyncio.Event()

    class Slow(Actor):
        async def on_start(self) -> None:
            await gate.wait()

        @ask
        def ready(self) -> bool:
            return True

    async def patient(runtime: PodRuntime) -> bool:
        return await cast("Slow", runtime.handle("slow")).ready()

    runtime = PodRuntime(spec_of(RoleSpec(name="slow", kind=Slow)), "stage", 1)
    task = asyncio.create_task(runtime.run())
    for _ in range(20):
        await asyncio.sleep(0)
    assert phase_of(runtime) is PodPhase.PENDING
    early = asyncio.create_task(patient(runtime))
    await asyncio.sleep(0)
    assert not early.done()
    gate.set()
    assert await early is True
    assert phase_of(runtime) is PodPhase.RUNNING
    runtime.kill(PodEnding(PodPhase.FAILED, "enough"))
    assert (await task).reason == "enough"


# --- rounds -----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S4", "S7")
@pytest.mark.guarantee("G130")
async def test_a_round_goes_by_priority_up_to_the_budget_and_ends_with_the_hook() -> None:
    book: list[str] = []
    limits = LoopConfig(max_msgs_per_actor=3, max_actors_per_tick=1)
    runtime = PodRuntime(spec_of(lead(book), limits=limits), "stage", 1)
    task = await begun(runtime)
    await asyncio.sleep(0)
    book.clear()
    leader = cast("Lead", runtime.handle("lead"))
    leader.low(1)
    leader.low(2)
    leader.middle(1)
    leader.high(1)
    leader.high(2)
    assert runtime.poll_once() is PodPhase.RUNNING
    assert book == ["high 1", "high 2", "middle 1", "parked"]
    assert runtime.poll_once() is PodPhase.RUNNING
    assert book[4:] == ["low 1", "low 2", "parked"]
    assert runtime.poll_once() is PodPhase.RUNNING  # at once, with nothing to do
    assert book[7:] == ["parked"]
    leader.crash()
    runtime.poll_once()
    await task
    assert runtime.poll_once() is PodPhase.FAILED


@pytest.mark.spec("S7")
@pytest.mark.guarantee("G130")
async def test_a_hook_that_raises_is_a_failure_of_its_actor() -> None:
    class Grumpy(Actor):
        @tell
        def poke(self) -> None:
            pass

        def on_park(self) -> None:
            raise Boom("parking")

    runtime = PodRuntime(spec_of(RoleSpec(name="grumpy", kind=Grumpy)), "stage", 1)
    ending = await (await begun(runtime))
    assert (ending.actor, repr(ending.cause)) == ("grumpy", "Boom('parking')")


# --- handles ----------------------------------------------------------------------------------------------------------------


@pytest.mark.spec("S13")
def test_what_is_not_exposed_is_nobody_elses() -> None:
    spec = spec_of(lead([]), HAND)
    outside = PodRuntime(spec, None, 1)
    assert outside.handle("hand") == outside.handle("hand")
    with pytest.raises(
        InvalidArgumentError,
        match="role 'lead' is in pod 'stage' and not exposed: the calling program cannot",
    ):
        outside.handle("lead")
    with pytest.raises(InvalidArgumentError, match="has no role 'drums'; it has hand, lead"):
        outside.handle("drums")
    with pytest.raises(InvalidArgumentError, match="has no pod 'cellar'"):
        PodRuntime(spec, "cellar", 1)
