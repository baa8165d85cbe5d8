"""A restart has new state and a new id, and keeps messages only if the spec says so."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, ExitReason, Lane, Loop, Verdict
from bandstand.errors import NoSuchActorError, RestartLimitError, StartError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    Strategy,
    Supervisor,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock, leaks_of
from tests.core.descriptors import Descriptors
from tests.core.support import (
    USER_LANES,
    Boom,
    LoopMaker,
    call_in,
    check_statistics,
    idle,
    settle,
)
from tests.supervision.helpers import (
    NameRecorder,
    child,
    crash,
    fail,
    id_of,
    order,
    phases,
    spin,
    start,
)

pytestmark = pytest.mark.guarantee("G51")


@pytest.fixture
def descriptors() -> Iterator[Descriptors]:
    with Descriptors() as descriptors:
        yield descriptors


def generation_of(actor: ActorId) -> tuple[int, int]:
    """The index and the generation that an id is made of."""
    number = int(actor)
    return (number >> 24) & (1 << 24) - 1, number & (1 << 24) - 1


class Reader:
    """A child that writes down what it reads, with its incarnation; `"poison"` makes it fail."""

    def __init__(self, *, fails: int = 0) -> None:
        self.incarnation = 0
        self.fails = fails
        self.inits = 0
        self.read: list[tuple[int, object]] = []

    def init(self, ctx: Context[int]) -> int:
        self.inits += 1
        if 1 < self.inits <= 1 + self.fails:
            raise Boom("init")
        self.incarnation += 1
        return self.incarnation

    def run(self, ctx: Context[int], data: object) -> Verdict | None:
        self.read.append((ctx.state, data))
        if data == "poison":
            raise Boom(data)
        return Verdict.STOP if data == "leave" else None

    def spec(self, **fields: Any) -> ChildSpec[int]:
        fields.setdefault("keep_mailbox", True)
        return ChildSpec("reader", self.run, init=self.init, **fields)


# --- nothing of the old one -----------------------------------------------------------------------------------------------


@pytest.mark.spec("J18")
def test_state_and_id_are_new(loop: Loop) -> None:
    states: list[dict[str, int]] = []

    def init(ctx: Context[dict[str, int]]) -> dict[str, int]:
        states.append({"count": 0})
        return states[-1]

    def count(ctx: Context[dict[str, int]], data: object) -> None:
        ctx.state["count"] += 1
        if data == "crash":
            raise Boom(data)

    sup = start(loop, ChildSpec("a", count, init=init))
    seen = [id_of(sup, "a")]
    for _ in range(5):
        loop.send(seen[-1], 1)
        loop.send(seen[-1], "crash")
        settle(loop)
        seen.append(id_of(sup, "a"))
    assert [state["count"] for state in states] == [2, 2, 2, 2, 2, 0]
    assert len(set(seen)) == 6
    assert len({int(actor) for actor in seen}) == 6
    indexes = [generation_of(actor)[0] for actor in seen]
    for one, other in pairwise(seen):
        if generation_of(one)[0] == generation_of(other)[0]:
            assert generation_of(one)[1] < generation_of(other)[1]
    assert len(set(indexes)) < 6, "slots of the actor table are used again"
    for stale in seen[:-1]:
        assert loop.status(stale) is ActorStatus.FAILED
        with pytest.raises(NoSuchActorError):
            loop.send(stale, "for the old one")
        with pytest.raises(NoSuchActorError):
            loop.send(int(stale), "for the old one")


@pytest.mark.slow
def test_the_state_is_let_go_with_its_incarnation(loop: Loop) -> None:
    class State:
        pass

    alive: list[weakref.ref[State]] = []

    def init(ctx: Context[State]) -> State:
        state = State()
        alive.append(weakref.ref(state))
        return state

    sup = start(loop, child("a", init=init))
    order(loop, sup, "a", fail)
    gc.collect()
    assert [ref() is None for ref in alive] == [True, False]


def test_the_name_points_to_the_new_one_before_the_observer_hears_of_it(loop: Loop) -> None:
    found: list[tuple[ActorId | None, ActorId]] = []
    between: list[ActorId | None] = []

    class Looking:
        def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
            found.append((sup.child("a"), child))

        def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002 -- the hook's own name
            between.append(sup.child("a"))

    sup = start(loop, child("a"))
    loop.set_observer(Looking())
    order(loop, sup, "a", crash)
    assert found == [(id_of(sup, "a"), id_of(sup, "a"))]
    assert between == [None], "never to one that has ended"


def test_arguments_and_context_of_a_dynamic_child_are_those_it_was_started_with(loop: Loop) -> None:
    flavor: ContextVar[str] = ContextVar("flavor", default="none")
    seen: list[tuple[object, ...]] = []

    async def init(ctx: Context[Any], *arguments: object) -> None:
        seen.append((*arguments, flavor.get()))

    sup = spawn_supervisor(loop, DynamicSpec(child=child("a", init=init)))
    token = flavor.set("first")
    sup.start_child(1, "x")
    flavor.set("second")
    sup.start_child(2, "y")
    flavor.reset(token)
    spin(loop)
    loop.send(id_of(sup, "a-1"), crash)
    spin(loop)
    assert seen == [(1, "x", "first"), (2, "y", "second"), (1, "x", "first")]
    assert sup.name_of(id_of(sup, "a-1")) == "a-1"


# --- FRESH ----------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G4", "G50")
@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("fails", [0, 1, 5])
def test_unread_messages_are_kept_in_order_or_buried_and_the_poison_is_not_repeated(
    loop: Loop, recorder: NameRecorder, fails: int, keeps: bool
) -> None:
    """However many inits fail in between."""
    reader = Reader(fails=fails)
    sup = start(loop, reader.spec(keep_mailbox=keeps))
    for message in ("one", "poison", "two", "three"):
        loop.send(id_of(sup, "reader"), message)
    settle(loop)
    loop.send(id_of(sup, "reader"), "four")
    settle(loop)
    kept = ["two", "three"] if keeps else []
    assert reader.read == [(1, "one"), (1, "poison"), *((2, message) for message in [*kept, "four"])]
    assert recorder.dead == ([] if keeps else ["two", "three"])
    assert loop.statistics().dead == len(recorder.dead)


# --- keep_mailbox -----------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G5", "G6")
def test_kept_in_order_of_each_lane_with_tag_and_sender(loop: Loop) -> None:
    seen: list[tuple[Lane, object, int, object]] = []
    sender = loop.spawn(idle)

    def run(ctx: Context[None], data: object) -> None:
        seen.append((ctx.lane, data, ctx.tag, ctx.sender))

    sup = start(loop, ChildSpec("a", run, keep_mailbox=True))
    a = id_of(sup, "a")
    for number in range(5):
        for lane in USER_LANES:
            loop.send(a, number, lane=lane, tag=number + 7, sender=sender)
    loop.fail_actor(a)
    settle(loop)
    assert seen == [(lane, number, number + 7, sender) for lane in USER_LANES for number in range(5)]
    assert loop.statistics().waiting == 0


@pytest.mark.guarantee("G5", "G6")
@pytest.mark.parametrize("kept_lane", USER_LANES)
@pytest.mark.parametrize("new_lane", USER_LANES)
def test_kept_comes_before_what_the_init_sends(loop: Loop, kept_lane: Lane, new_lane: Lane) -> None:
    seen: list[object] = []
    inits = 0

    def init(ctx: Context[None]) -> None:
        nonlocal inits
        inits += 1
        if inits == 2:
            ctx.loop.send(ctx.self_id, "new", lane=new_lane)

    def run(ctx: Context[None], data: object) -> None:
        seen.append(data)

    sup = start(loop, ChildSpec("a", run, init=init, keep_mailbox=True))
    for number in range(3):
        loop.send(id_of(sup, "a"), number, lane=kept_lane)
    loop.fail_actor(id_of(sup, "a"))
    settle(loop)
    expected: list[object] = [0, 1, 2]
    expected.insert(0 if new_lane < kept_lane else 3, "new")
    assert seen == expected


def test_kept_when_there_was_no_room_for_the_next_one(make_loop: LoopMaker, clock: VirtualClock) -> None:
    loop = make_loop(max_actors=3)
    reader = Reader()
    sup = start(loop, reader.spec(), child("b"))
    squatter: list[ActorId] = []
    a = id_of(sup, "reader")

    def squat(ctx: Context[Any]) -> None:
        loop.fail_actor(a)
        squatter.append(loop.spawn(idle))

    call_in(loop, id_of(sup, "b"), squat)
    loop.send(a, "one")
    loop.poll_once()
    assert phases(sup)["reader"] == "waiting"
    loop.stop_actor(squatter[0])
    clock.advance(0.001)
    settle(loop)
    assert reader.read == [(2, "one")]
    check_statistics(loop)


@pytest.mark.guarantee("G37")
def test_what_other_threads_have_sent_and_was_not_in_yet_is_a_dead_letter(loop: Loop) -> None:
    reader = Reader()
    sup = start(loop, reader.spec())
    a = id_of(sup, "reader")
    loop.send(a, "kept")
    thread = threading.Thread(target=lambda: loop.send_async(a, "from afar"))
    thread.start()
    thread.join()
    loop.fail_actor(a)
    settle(loop)
    assert reader.read == [(2, "kept")]
    assert loop.statistics().dead == 1
    assert loop.statistics().waiting == 0


# --- keep_mailbox without a next one       -----------------------------------------------------------------------------------------

Ending = Callable[[Loop, Supervisor, VirtualClock], None]


def stop_it(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    sup.stop_child("reader")


def stop_all(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    sup.stop()


def kill_all(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    loop.kill_actor(sup.actor)


def fail_all(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    loop.fail_actor(sup.actor)


def give_up(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    loop.fail_actor(id_of(sup, "b"))


def destroy(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    loop.destroy()


def end_loop(loop: Loop, sup: Supervisor, clock: VirtualClock) -> None:
    loop.request_stop()


ENDINGS: list[Ending] = [stop_it, stop_all, kill_all, fail_all, give_up, destroy, end_loop]


@pytest.mark.guarantee("G10", "G54")
@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: ending.__name__)
@pytest.mark.parametrize("when", ["in its mailbox", "during its backoff", "before its exit is heard"])
@pytest.mark.parametrize("strategy", list(Strategy))
def test_kept_messages_are_buried_when_there_is_no_next_one(
    loop: Loop, clock: VirtualClock, ending: Ending, when: str, strategy: Strategy
) -> None:
    reader = Reader()
    is_waiting = when == "during its backoff"
    sup = start(
        loop,
        child("b"),
        reader.spec(backoff=Backoff(initial=0.1)),
        max_restarts=1 if is_waiting else 0,
        strategy=strategy if not is_waiting else Strategy.REST_FOR_ONE,
    )
    recorder = NameRecorder()
    loop.set_observer(recorder)
    actor = id_of(sup, "reader")
    if is_waiting:
        loop.send(actor, "poison")
    for message in ("one", "two"):
        loop.send(actor, message)
    if is_waiting:
        settle(loop)
        assert loop.statistics().waiting == 2
    elif when == "before its exit is heard":
        loop.fail_actor(actor)
    with suppress(RestartLimitError):
        ending(loop, sup, clock)
        if ending in {destroy, end_loop}:
            loop.destroy()
        else:
            settle(loop)
    kept = [message for message in recorder.dead if message in ("one", "two")]
    read = [data for _, data in reader.read if data != "poison"]
    assert sorted([*kept, *read], key=str) == ["one", "two"], "each has one fate"
    if when != "in its mailbox" or ending is not give_up:
        assert kept == ["one", "two"]
    assert loop.statistics().waiting == 0
    check_statistics(loop)
    loop.destroy()
    assert leaks_of(loop) == []


def test_what_a_failing_start_has_sent_itself_is_not_kept(loop: Loop, recorder: NameRecorder) -> None:
    read: list[object] = []
    inits = 0

    def init(ctx: Context[None]) -> None:
        nonlocal inits
        inits += 1
        ctx.loop.send(ctx.self_id, f"from init {inits}")
        if inits == 2:
            raise Boom(inits)

    def run(ctx: Context[None], data: object) -> None:
        read.append(data)

    sup = start(loop, ChildSpec("a", run, init=init, keep_mailbox=True))
    settle(loop)
    sup.stop_child("a")
    with pytest.raises(StartError):
        sup.restart_child("a")
    assert recorder.dead == ["from init 2"], "it is down, as before"
    sup.restart_child("a")
    settle(loop)
    assert read == ["from init 1", "from init 3"]


@pytest.mark.guarantee("G10")
@pytest.mark.parametrize("how", ["stop", "fail", "kill"])
def test_kept_messages_when_the_observer_ends_the_next_one_at_its_birth(loop: Loop, how: str) -> None:
    reader = Reader()
    sup = start(loop, reader.spec())
    births = 0
    end = {"stop": loop.stop_actor, "fail": loop.fail_actor, "kill": loop.kill_actor}[how]
    dead: list[object] = []

    class Deadly:
        def on_actor_start(self, id: ActorId, name: str | None) -> None:  # noqa: A002 -- the hook's own name
            nonlocal births
            births += 1
            if births == 1:
                end(id)

        def on_dead_letter(self, target: ActorId, lane: Lane, data: object, tag: int, sender: Any) -> None:
            dead.append(data)

    loop.set_observer(Deadly())
    for message in ("poison", "one", "two"):
        loop.send(id_of(sup, "reader"), message)
    settle(loop)
    assert [data for _, data in reader.read[1:]] + dead == ["one", "two"]
    assert loop.statistics().waiting == 0
