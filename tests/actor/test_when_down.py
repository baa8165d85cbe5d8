"""Handles of supervised children while the child is being restarted: asks wait, one-way calls raise or are queued."""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, id_of, is_alive, tell, when_down
from bandstand.errors import (
    ActorRestartingError,
    AskCycleError,
    AskTimeoutError,
    IgnoreChild,
    InvalidArgumentError,
    LoopClosedError,
    MailboxFullError,
    NoSuchActorError,
    TargetEndedError,
    TryAgainError,
)
from bandstand.pod import WhenDown
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    RestartPolicy,
    Strategy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.actor.players import PATIENCE, Book, elsewhere, spin, turns
from tests.actor.workers import Worker, one_for_one
from tests.core.support import Boom, check_statistics, settle

pytestmark = [pytest.mark.guarantee("G310", "G311"), pytest.mark.spec("J21")]


BACKOFF = Backoff(initial=0.1)


@pytest.fixture(autouse=True)
def first_incarnation() -> None:
    Worker.born = 0


class Unneeded(Worker):
    """Starts only once."""

    def on_start(self) -> None:
        if self.number > 1:
            raise IgnoreChild("not needed")


def crashed(
    loop: ActorSystem, book: Book, kind: type[Worker] = Worker, **options: Any
) -> tuple[Supervisor, Worker]:
    """Return a supervisor whose child 'worker' has crashed and waits 100 ms for its restart, and the child's handle."""
    root = one_for_one(loop, child("worker", backoff=BACKOFF, **options).of(kind, book))
    settle(loop)
    handle = root.handle(kind, "worker")
    handle.crash()
    settle(loop)
    assert not is_alive(handle)
    return root, handle


def result_of(loop: ActorSystem, clock: VirtualClock, reply: Any, ms: int = 0) -> Any:
    """Return the result of a reply after some time."""
    clock.advance(ms / 1000)
    settle(loop)
    return reply.result()


# --- asks wait --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep_mailbox", [False, True])
async def test_asks_in_the_tick_of_a_crash_are_answered(loop: ActorSystem, keep_mailbox: bool) -> None:
    answers: list[int] = []

    class Caller(Actor):
        def __init__(self, worker: Worker) -> None:
            self.worker = worker

        @tell
        async def call(self) -> None:
            answers.extend(await asyncio.gather(*(self.worker.incarnation() for _ in range(1000))))

    root = one_for_one(loop, child("worker", keep_mailbox=keep_mailbox).of(Worker, []))
    worker = root.handle(Worker, "worker")
    caller = loop.spawn(Caller, worker)
    worker.crash()
    caller.call()  # in the same tick, after the crash and before the supervisor has handled it
    await turns(10)
    assert answers == [2] * 1000
    assert loop.ask_statistics().failed == 0


async def test_a_waiting_ask_ends_at_its_deadline(virtual_system: ActorSystem, clock: VirtualClock) -> None:
    spec = child("worker", backoff=Backoff(initial=1)).of(Worker, [])
    handle = one_for_one(virtual_system, spec).handle(Worker, "worker")
    handle.crash()
    await turns()
    since = clock.now_ns()
    handle.incarnation().cancel()
    with pytest.raises(AskTimeoutError):
        await handle.incarnation.within(0.05)()
    assert clock.now_ns() - since == 50_000_000
    assert await handle.incarnation() == 2  # those that ended were not delivered later
    books = virtual_system.ask_statistics()
    assert (books.answered, books.expired, books.cancelled, books.late) == (1, 1, 1, 0)


@pytest.mark.guarantee("G442")
def test_asks_that_wait_behind_a_crash_are_answered_by_the_next_incarnation(loop: ActorSystem) -> None:
    book: Book = []
    root = one_for_one(loop, child("worker").of(Worker, book))
    settle(loop)
    handle = root.handle(Worker, "worker")
    before = [handle.incarnation() for _ in range(500)]
    handle.crash()
    behind = [handle.incarnation() for _ in range(500)]
    handle.note(1)  # a one-way message, which is a dead letter
    settle(loop)
    assert [reply.result() for reply in before] == [1] * 500
    assert [reply.result() for reply in behind] == [2] * 500
    assert book == []
    assert loop.statistics().dead == 1


@pytest.mark.guarantee("G442")
async def test_an_ask_that_was_begun_ends_with_the_incarnation(virtual_system: ActorSystem) -> None:
    class Slow(Worker):
        @ask
        async def wait(self) -> int:
            await asyncio.sleep(1)
            return 5

    handle = one_for_one(virtual_system, child("slow").of(Slow, [])).handle(Slow, "slow")
    begun = handle.wait()
    await asyncio.sleep(0.1)
    behind = handle.incarnation()
    handle.kill()
    with pytest.raises(TargetEndedError):
        await begun
    assert await behind == 2


@pytest.mark.guarantee("G442")
def test_asks_behind_a_crash_fail_if_the_child_is_not_restarted(loop: ActorSystem) -> None:
    ways: list[dict[str, Any]] = [{"restart": RestartPolicy.NEVER}, {"max_restarts": 0}]
    for options in ways:
        handle = one_for_one(loop, child("worker", **options).of(Worker, [])).handle(Worker, "worker")
        handle.crash()
        gone, reply = handle.incarnation(), handle.incarnation()
        gone.cancel()
        settle(loop)
        with pytest.raises(TargetEndedError) as caught:
            reply.result()
        assert isinstance(caught.value.__cause__, Boom)
    assert loop.ask_statistics().cancelled == 2


def test_an_ask_waits_while_a_nested_supervisor_is_down(loop: ActorSystem, clock: VirtualClock) -> None:
    inner = SupervisorSpec(children=[child("worker").of(Worker, [])], max_restarts=0)
    root = one_for_one(loop, ChildSpec("inner", inner, backoff=BACKOFF))
    handle = root.handle(Worker, "inner", "worker")
    handle.crash()
    settle(loop)
    assert root.child("inner") is None
    reply = handle.incarnation()
    assert result_of(loop, clock, reply, 101) == 2


async def test_an_ask_waits_while_a_group_stops(virtual_system: ActorSystem) -> None:
    class Slow(Actor):
        @ask
        def ready(self) -> bool:
            return True

        @tell
        async def work(self) -> None:
            try:
                await asyncio.sleep(1000)
            finally:
                await asyncio.sleep(0.05)

    specs = child("worker").of(Worker, []), child("slow").of(Slow)
    root = one_for_one(virtual_system, *specs, strategy=Strategy.ONE_FOR_ALL)
    worker, slow = root.handle(Worker, "worker"), root.handle(Slow, "slow")
    slow.work()
    await turns()
    worker.crash()
    await turns()
    assert not is_alive(slow)
    assert await slow.ready()
    assert await worker.incarnation() == 2


def test_asks_that_find_a_full_mailbox_at_the_restart_fail(loop: ActorSystem, clock: VirtualClock) -> None:
    book: Book = []
    root = one_for_one(loop, child("worker", backoff=BACKOFF, keep_mailbox=True, mailbox=4).of(Worker, book))
    settle(loop)
    handle = root.handle(Worker, "worker")
    handle.crash()
    for n in range(3):
        handle.note(n)  # kept for the next incarnation
    settle(loop)
    replies = [handle.incarnation() for _ in range(2)]
    clock.advance(0.101)
    settle(loop)
    assert book == [(2, 0), (2, 1), (2, 2)]
    assert replies[0].result() == 2
    with pytest.raises(MailboxFullError):
        replies[1].result()


async def test_an_actor_that_asks_itself_through_its_supervised_handle_is_a_cycle(loop: ActorSystem) -> None:
    seen: list[BaseException] = []
    handles: list[Selfish] = []

    class Selfish(Worker):
        async def on_start(self) -> None:
            if handles:
                try:
                    await handles[0].incarnation()
                except AskCycleError as error:
                    seen.append(error)

    root = one_for_one(loop, child("selfish").of(Selfish, []))
    await turns()
    handles.append(root.handle(Selfish, "selfish"))
    handles[0].crash()
    await turns()
    assert await handles[0].incarnation() == 2
    assert len(seen) == 1


# --- every wait ends --------------------------------------------------------------------------------------------------------


async def test_waiters_fail_when_the_supervisor_gives_up(virtual_system: ActorSystem) -> None:
    class FailsAgain(Worker):
        def on_start(self) -> None:
            if self.number > 1:
                raise Boom("again")

    limited = SupervisorSpec(children=[child("worker", backoff=BACKOFF).of(FailsAgain, [])])
    spec: ChildSpec[Any] = ChildSpec("outer", limited, restart=RestartPolicy.NEVER)
    top = spawn_supervisor(virtual_system, SupervisorSpec(children=[spec]))
    outer = top.supervisor("outer", Supervisor)
    assert outer is not None
    handle = outer.handle(Worker, "worker")
    handle.crash()
    await turns()
    replies = [handle.incarnation(), top.handle(Worker, "outer", "worker").incarnation()]
    outer.spend_restarts()
    await asyncio.sleep(0.2)  # the next start fails
    for reply in replies:
        with pytest.raises(NoSuchActorError) as caught:
            await reply
        assert not isinstance(caught.value, TryAgainError)
    with pytest.raises(NoSuchActorError, match="will not be restarted"):
        handle.incarnation().cancel()


@pytest.mark.parametrize(
    "way", ["stop_child", "stop_supervisor", "end_supervisor", "delete_child", "ignore", "end_loop"]
)
def test_waiters_fail_when_no_restart_comes(loop: ActorSystem, clock: VirtualClock, way: str) -> None:
    root, handle = crashed(loop, [], Unneeded if way == "ignore" else Worker)
    reply = handle.incarnation()
    when_down(handle, WhenDown.QUEUE).note("lost")
    if way == "stop_supervisor":
        root.stop()
    elif way == "end_supervisor":
        loop.kill_actor(root.actor)
    elif way == "end_loop":
        loop.destroy()
    elif way == "ignore":
        clock.advance(0.101)
    else:
        root.stop_child("worker")
        if way == "delete_child":
            root.delete_child("worker")
    if way != "end_loop":
        settle(loop)
    later = handle.incarnation
    for call in (reply.result, lambda: later().cancel()):
        with pytest.raises((NoSuchActorError, LoopClosedError)) as caught:
            call()
        assert not isinstance(caught.value, ActorRestartingError)
        assert way == "end_loop" or "will not be restarted" in str(caught.value)
    assert loop.events.counts().dead_letters == 1


def test_a_child_that_is_not_restarted_fails_at_once(loop: ActorSystem) -> None:
    root = one_for_one(
        loop,
        child("temporary", restart=RestartPolicy.NEVER).of(Worker, []),
        child("transient", restart=RestartPolicy.ON_FAILURE).of(Worker, []),
    )
    settle(loop)
    temporary, transient = (root.handle(Worker, name) for name in ("temporary", "transient"))
    loop.kill_actor(id_of(temporary))
    loop.stop_actor(id_of(transient))
    for handle in (temporary, transient):
        # The supervisor has not handled the exits yet.
        with pytest.raises(NoSuchActorError, match="will not be restarted"):
            handle.incarnation().cancel()
    settle(loop)
    for handle in (temporary, transient):
        with pytest.raises(NoSuchActorError, match="will not be restarted"):
            handle.incarnation().cancel()
    root.restart_child("transient")
    reply = transient.incarnation()
    settle(loop)
    assert reply.result() == 3


def test_waiters_for_a_dynamic_child_whose_supervisor_restarts(
    loop: ActorSystem, clock: VirtualClock
) -> None:
    spec = DynamicSpec(child=child("session").of(Worker, []), max_restarts=0)
    root = one_for_one(loop, ChildSpec("sessions", spec, backoff=BACKOFF))
    sessions = root.supervisor("sessions", DynamicSupervisor[Any])
    assert sessions is not None
    sessions.start_child()
    handle = root.handle(Worker, "sessions", "session-1")
    handle.crash()
    settle(loop)
    reply = handle.incarnation()
    clock.advance(0.101)
    settle(loop)
    with pytest.raises(NoSuchActorError, match="will not be restarted"):
        reply.result()


# --- policies ---------------------------------------------------------------------------------------------------------------


def test_fail_raises_at_once(loop: ActorSystem, clock: VirtualClock) -> None:
    _, handle = crashed(loop, [])
    hasty = when_down(handle, WhenDown.FAIL)
    assert hasty == handle
    with pytest.raises(
        ActorRestartingError, match="'worker' of supervisor 'root' is down and will be restarted"
    ):
        hasty.incarnation().cancel()
    with pytest.raises(ActorRestartingError):
        hasty.note("lost")
    assert hasty.note.try_send("lost") is False
    clock.advance(0.101)
    settle(loop)
    reply = hasty.incarnation()
    settle(loop)
    assert reply.result() == 2


def test_queue_keeps_one_way_messages_and_asks_in_order(loop: ActorSystem, clock: VirtualClock) -> None:
    book: Book = []
    _, handle = crashed(loop, book)
    queueing = when_down(handle, WhenDown.QUEUE)
    queueing.note(1)
    assert queueing.note.try_send(2)
    reply = queueing.incarnation()
    elsewhere(lambda: queueing.note(3))
    assert queueing.note.when_room(4).done()
    clock.advance(0.101)
    settle(loop)
    assert sorted(book) == [(2, 1), (2, 2), (2, 3), (2, 4)]
    assert book[:2] == [(2, 1), (2, 2)]
    assert reply.result() == 2


def test_the_queue_is_as_long_as_the_mailbox(loop: ActorSystem, clock: VirtualClock, book: Book) -> None:
    _, handle = crashed(loop, book, mailbox=4)
    queueing = when_down(handle, WhenDown.QUEUE)
    replies = [handle.incarnation() for _ in range(3)]
    queueing.note(1)
    for call in (lambda: handle.incarnation().cancel(), lambda: queueing.note(2)):
        with pytest.raises(ActorRestartingError, match="4 messages wait for it"):
            call()
    assert queueing.note.try_send(2) is False
    replies[0].cancel()
    replies.append(handle.incarnation())  # there is room again
    clock.advance(0.101)
    settle(loop)
    assert [reply.result() for reply in replies[1:]] == [2] * 3
    assert book == [(2, 1)]


def test_a_timeout_limits_the_wait(loop: ActorSystem, clock: VirtualClock, book: Book) -> None:
    _, handle = crashed(loop, book)
    waiting = when_down(handle, WhenDown.WAIT, timeout=0.05)
    queueing = when_down(handle, WhenDown.QUEUE, timeout=timedelta(milliseconds=20))
    reply = waiting.incarnation()
    queueing.note("lost")
    clock.advance(0.06)
    settle(loop)
    with pytest.raises(ActorRestartingError, match=r"was not restarted within 0\.05 s"):
        reply.result()
    assert loop.events.counts().dead_letters == 1
    clock.advance(0.101)
    settle(loop)
    assert book == []


@pytest.mark.parametrize(
    ("policy", "timeout"), [("wait", None), (WhenDown.WAIT, -1), (WhenDown.QUEUE, float("nan")), (None, 1)]
)
def test_wrong_arguments_of_when_down_are_refused(loop: ActorSystem, policy: Any, timeout: Any) -> None:
    handle = one_for_one(loop, child("worker").of(Worker, [])).handle(Worker, "worker")
    with pytest.raises(InvalidArgumentError, match="when_down"):
        when_down(handle, policy, timeout=timeout)
    with pytest.raises(InvalidArgumentError, match="not restarted"):
        when_down(loop.spawn(Worker, []), WhenDown.WAIT)
    with pytest.raises(InvalidArgumentError, match="not a handle"):
        when_down("worker", WhenDown.WAIT)


# --- other threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["blocking", "future"])
def test_asks_of_other_threads_wait(loop: ActorSystem, clock: VirtualClock, form: str) -> None:
    _, handle = crashed(loop, [])
    answers: list[int] = []

    def work() -> None:
        if form == "blocking":
            answers.append(handle.incarnation.blocking())
        else:
            answers.append(handle.incarnation.future().result(PATIENCE))

    thread = threading.Thread(target=work)
    thread.start()
    while loop.ask_statistics().asked == 0:
        pass
    spin(loop)
    clock.advance(0.101)
    while thread.is_alive():
        loop.poll_once()
    thread.join(PATIENCE)
    assert answers == [2]


@pytest.mark.parametrize("end", ["deadline", "cancelled", "child stopped"])
def test_an_ask_of_another_thread_ends_waiting(loop: ActorSystem, clock: VirtualClock, end: str) -> None:
    root, handle = crashed(loop, [])
    future = elsewhere(handle.incarnation.within(0.02).future)
    spin(loop)
    if end == "cancelled":
        assert future.cancel()
    elif end == "deadline":
        clock.advance(0.05)
        spin(loop)
        with pytest.raises(AskTimeoutError):
            future.result(PATIENCE)
        assert loop.ask_statistics().expired == 1
    else:
        root.stop_child("worker")
        settle(loop)
        for call in (lambda: future.result(PATIENCE), lambda: elsewhere(handle.incarnation.future)):
            with pytest.raises(NoSuchActorError, match="will not be restarted"):
                call()
    clock.advance(0.101)
    spin(loop)
    assert loop.ask_statistics().answered == 0


# --- a child that is given up -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G384")
def test_an_ask_that_waits_fails_when_the_child_is_given_up(loop: ActorSystem, clock: VirtualClock) -> None:
    class Device(Worker):
        def on_start(self) -> None:
            if self.number > 1:
                raise OSError("no route")

    spec = DynamicSpec(child=child("device", max_restarts=1, backoff=BACKOFF).of(Device, []))
    root = spawn_supervisor(loop, spec, name="devices")
    root.start_child(name="pump")
    pump = root.handle(Device, "pump")
    pump.crash()
    settle(loop)
    reply = pump.incarnation()
    text = (
        r"child 'pump' of supervisor 'devices' is down and will not be restarted: its supervisor has given it up, this would be "
        r"restart 2 within 5 s, and its max_restarts is 1; it ended with reason PANIC \(OSError\('no route'\)\)"
    )
    with pytest.raises(NoSuchActorError, match=text):
        result_of(loop, clock, reply, 100)
    with pytest.raises(NoSuchActorError, match=text):
        pump.crash()


@pytest.mark.guarantee("G442")
async def test_kept_asks_come_behind_what_on_start_sends_to_itself(virtual_system: ActorSystem) -> None:
    class Prepared(Actor):
        def __init__(self, book: list[str]) -> None:
            self.book = book

        def on_start(self) -> None:
            self.me.prepare()

        @tell
        def prepare(self) -> None:
            self.book.append("prepared")

        @tell
        def crash(self) -> None:
            raise Boom("crash")

        @ask
        def read(self) -> list[str]:
            self.book.append("read")
            return self.book

    book: list[str] = []
    prepared = one_for_one(virtual_system, child("prepared").of(Prepared, book)).handle(Prepared, "prepared")
    await asyncio.sleep(0.1)
    prepared.crash()
    await prepared.read()
    assert book == ["prepared", "prepared", "read"]


@pytest.mark.guarantee("G442")
async def test_kept_asks_outlive_an_init_that_fails(virtual_system: ActorSystem) -> None:
    class Stubborn(Worker):
        def on_start(self) -> None:
            if type(self).born in {2, 3}:
                raise Boom("not yet")

    handle = one_for_one(virtual_system, child("stubborn", backoff=BACKOFF).of(Stubborn, [])).handle(
        Stubborn, "stubborn"
    )
    handle.crash()
    replies = [handle.incarnation() for _ in range(10)]
    assert [await reply for reply in replies] == [4] * 10
    check_statistics(virtual_system)


@pytest.mark.guarantee("G442")
def test_kept_asks_end_if_the_next_on_start_ends_its_supervisor_and_itself(loop: ActorSystem) -> None:
    class Deadly(Worker):
        def on_start(self) -> None:
            if self.number > 1:
                loop.kill_actor(root.actor)
                self.stop()

    root = one_for_one(loop, child("deadly").of(Deadly, []))
    settle(loop)
    handle = root.handle(Deadly, "deadly")
    handle.crash()
    reply = handle.incarnation()
    settle(loop)
    with pytest.raises(TargetEndedError):
        reply.result()
    assert loop.statistics().waiting == 0
