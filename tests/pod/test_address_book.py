"""The address_book: publishing, connecting, waiting, and what becomes of those who wait."""

# One test must come in between.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from datetime import timedelta
from time import monotonic
from typing import cast
from weakref import ref

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bandstand.actor import Actor, ActorSystem, WhenDown, ask, id_of, tell, when_down
from bandstand.actor.declaration import methods_of
from bandstand.actor.dispatch import Method
from bandstand.actor.enums import RETRY
from bandstand.actor.handle import Handle, checked_handle
from bandstand.core import ActorId
from bandstand.errors import (
    AskTimeoutError,
    InvalidArgumentError,
    NoSuchActorError,
    PodDownError,
    PodGoneError,
    PodTimeoutError,
)
from bandstand.pod.address_book import NO_ROOM_MS, AddressBook, RoleRef
from tests.actor.players import elsewhere
from tests.core.support import settle

pytestmark = pytest.mark.spec("S5", "S6")

PATIENCE = 30  # seconds to wait for what must come
SOON = 20  # milliseconds that are to run out

mood: ContextVar[str] = ContextVar("mood", default="calm")


class Clerk(Actor):
    """Writes down what it hears."""

    def __init__(self, book: list[object]) -> None:
        self.book = book

    @tell
    def note(self, what: object) -> None:
        self.book.append(what if mood.get() == "calm" else (what, mood.get()))

    @ask
    def count(self) -> int:
        return len(self.book)


class Timers:
    """Has functions called when the test says so."""

    def __init__(self) -> None:
        self.pending: list[Callable[[], object]] = []
        self.retries: list[Callable[[], object]] = []
        self.times: list[float] = []

    def call_later(self, ms: float, function: Callable[[], object]) -> Callable[[], object]:
        if ms == NO_ROOM_MS:
            self.retries.append(function)
            return lambda: None
        self.pending.append(function)
        self.times.append(ms)
        return lambda: self.pending.remove(function) if function in self.pending else None

    def run_out(self) -> None:
        for function in list(self.pending):
            self.pending.remove(function)
            function()

    def retry(self) -> None:
        functions, self.retries = self.retries, []
        for function in functions:
            function()


class Stage:
    """A address_book of one pod with one role, a loop for its incarnations, and handles."""

    def __init__(self, capacity: int = 1024) -> None:
        self.timers = Timers()
        self.address_book = AddressBook(
            ("office",), call_later=self.timers.call_later, default_capacity=capacity
        )
        self.loop = ActorSystem()
        self.book: list[object] = []

    def incarnate(self, mailbox: int | None = None) -> ActorId:
        return id_of(self.loop.options(mailbox=mailbox).spawn(Clerk, self.book))

    def open(self) -> ActorId:
        actor = self.incarnate()
        self.address_book.publish("office", {"clerk": actor})
        return actor

    def fall(self, actor: ActorId) -> None:
        self.loop.kill_actor(actor)
        self.address_book.withdraw("office")

    def handle(self, policy: WhenDown = WhenDown.WAIT, ms: float = PATIENCE * 1000) -> Clerk:
        role_ref = RoleRef(self.address_book, "office", "clerk", Clerk, policy, ms)
        actor = self.address_book.find("office", "clerk")
        return cast("Clerk", self.loop.handle_at(Clerk, role_ref, name="clerk", actor=actor))


@pytest.fixture
def stage() -> Iterator[Stage]:
    stage = Stage()
    yield stage
    stage.loop.destroy()


# --- publish and connect ----------------------------------------------------------------------------------------------------


def test_what_is_published_is_found_and_what_is_withdrawn_is_not(stage: Stage) -> None:
    assert stage.address_book.find("office", "clerk") is None
    actor = stage.open()
    assert stage.address_book.find("office", "clerk") is actor
    assert stage.address_book.wait_for("office", "clerk", 0) is actor
    stage.address_book.withdraw("office")
    assert stage.address_book.find("office", "clerk") is None


@pytest.mark.spec("S15")
@pytest.mark.guarantee("G125")
@pytest.mark.real_time(reason="threads that are really blocked")
@pytest.mark.parametrize("is_gone", [False, True])
def test_one_publish_or_retirement_ends_every_wait(stage: Stage, is_gone: bool) -> None:
    waiters = 8
    begun = threading.Barrier(waiters + 1)

    def wait() -> object:
        begun.wait(PATIENCE)
        try:
            return stage.address_book.wait_for("office", "clerk", PATIENCE)
        except PodGoneError as error:
            return str(error)

    with ThreadPoolExecutor(waiters) as pool:
        futures = [pool.submit(wait) for _ in range(waiters)]
        begun.wait(PATIENCE)
        found: object = "pod 'office' has ended for good: it burnt down"
        if is_gone:
            stage.address_book.retire("office", "it burnt down")
        else:
            found = stage.open()
        assert [future.result(PATIENCE) for future in futures] == [found] * waiters


@pytest.mark.spec("S18")
@pytest.mark.guarantee("G126")
@pytest.mark.real_time(reason="a deadline on the machine's own clock")
def test_a_wait_has_its_end_although_nobody_publishes(stage: Stage) -> None:
    began = monotonic()
    with pytest.raises(PodTimeoutError, match=r"'office' was not back within 20 ms: see troupe.status"):
        stage.address_book.wait_for("office", "clerk", SOON / 1000)
    assert monotonic() - began >= SOON / 1000


def test_gone_is_for_ever_and_for_the_first_reason(stage: Stage) -> None:
    stage.address_book.retire("office", "first")
    stage.address_book.retire("office", "second")
    stage.address_book.publish("office", {"clerk": stage.incarnate()})
    assert stage.address_book.why_gone("office") == "first"
    with pytest.raises(PodGoneError, match="first"):
        stage.address_book.wait_for("office", "clerk", 0)


def test_what_nobody_has_declared_is_an_error(stage: Stage) -> None:
    with pytest.raises(InvalidArgumentError, match="there is no pod 'kitchen': pass one of office"):
        stage.address_book.find("kitchen", "cook")


# --- handles ----------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G124")
def test_the_hot_path_never_asks_the_registry(stage: Stage) -> None:
    stage.open()
    handle = stage.handle()
    before = stage.address_book.lookups
    for n in range(1000):
        handle.note(n)
        settle(stage.loop)
    assert stage.address_book.lookups == before
    assert stage.book == list(range(1000))


@pytest.mark.spec("S15")
@pytest.mark.guarantee("G124")
def test_after_a_restart_it_reconnects_once_and_then_no_more(stage: Stage) -> None:
    first = stage.open()
    handle = stage.handle()
    stage.fall(first)
    stage.open()
    before = stage.address_book.lookups
    handle.note("again")
    handle.note("and again")
    settle(stage.loop)
    assert stage.book == ["again", "and again"]
    assert stage.address_book.lookups == before + 1


@pytest.mark.spec("S2")
@pytest.mark.guarantee("G127")
@pytest.mark.parametrize("policy", WhenDown)
def test_a_pod_that_is_gone_is_an_error_at_once_whatever_the_policy(stage: Stage, policy: WhenDown) -> None:
    actor = stage.open()
    handle = stage.handle(policy)
    stage.fall(actor)
    stage.address_book.retire("office", "closed for good")
    with pytest.raises(PodGoneError, match="closed for good"):
        handle.note(1)
    with pytest.raises(NoSuchActorError):
        elsewhere(handle.count.blocking)
    assert handle.note.try_send(1) is False


@pytest.mark.guarantee("G127")
@pytest.mark.real_time(reason="a thread that is really blocked")
def test_a_plain_thread_waits_and_then_sends(stage: Stage) -> None:
    handle = stage.handle()
    begun = threading.Event()

    def send() -> None:
        begun.set()
        handle.note("patience")

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(send)
        assert begun.wait(PATIENCE)
        stage.open()
        future.result(PATIENCE)
    settle(stage.loop)
    assert stage.book == ["patience"]


@pytest.mark.guarantee("G127")
@pytest.mark.real_time(reason="a deadline on the machine's own clock")
def test_a_plain_thread_waits_no_longer_than_it_is_to(stage: Stage) -> None:
    handle = stage.handle(ms=SOON)
    with pytest.raises(PodTimeoutError):
        handle.note(1)
    with pytest.raises(PodTimeoutError):
        elsewhere(handle.count.blocking)
    assert handle.note.try_send(1) is True  # which never waits: the message does
    stage.open()
    settle(stage.loop)
    assert stage.book == [1]


@pytest.mark.guarantee("G128")
def test_what_waits_takes_its_context_along(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE)
    token = mood.set("gloomy")
    handle.note(1)
    mood.reset(token)
    handle.note(2)
    stage.open()
    settle(stage.loop)
    assert stage.book == [(1, "gloomy"), 2]


@pytest.mark.guarantee("G128")
def test_as_much_waits_as_may_and_one_more_is_refused() -> None:
    stage = Stage(capacity=3)
    handle = stage.handle(WhenDown.QUEUE)
    for n in range(3):
        handle.note(n)
    with pytest.raises(PodDownError, match="the queue of messages that wait for 'clerk' is full"):
        handle.note(3)
    assert handle.note.try_send(3) is False
    stage.loop.destroy()


@pytest.mark.guarantee("G128")
def test_what_waits_too_long_is_given_up_and_counted(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    handle = stage.handle(WhenDown.QUEUE, SOON)
    handle.note(1)
    future = handle.count.future()
    stage.timers.run_out()
    assert stage.address_book.waiting == 0
    assert stage.address_book.dead == 1
    assert "note() for 'clerk' was not delivered" in caplog.text
    with pytest.raises(PodTimeoutError):
        future.result(PATIENCE)
    stage.open()
    settle(stage.loop)
    assert stage.book == []


@pytest.mark.spec("S2")
@pytest.mark.guarantee("G128")
def test_what_waits_for_a_pod_that_goes_is_told(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE)
    handle.note(1)
    future = handle.count.future()
    stage.address_book.close("the troupe has ended")
    with pytest.raises(PodGoneError, match="the troupe has ended"):
        future.result(PATIENCE)
    assert stage.address_book.dead == 1


@pytest.mark.guarantee("G128")
def test_what_finds_no_room_stays_in_line_and_is_not_overtaken(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE)
    for n in range(3):
        handle.note(n)
    # One slot for users, beside the system's four.
    stage.address_book.publish("office", {"clerk": stage.incarnate(mailbox=1)})
    settle(stage.loop)
    assert stage.book == [0]
    handle.note(3)
    assert stage.address_book.waiting == 3
    while stage.timers.retries:
        stage.timers.retry()
        settle(stage.loop)
    handle.note(4)
    settle(stage.loop)
    assert stage.book == [0, 1, 2, 3, 4]
    assert stage.address_book.dead == 0
    assert not stage.timers.pending


@pytest.mark.guarantee("G128")
def test_an_ask_that_waits_has_its_own_time_too(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE, PATIENCE * 1000)
    future = handle.count.within(0).future()
    assert stage.timers.times == [0.0]
    stage.timers.run_out()
    with pytest.raises(AskTimeoutError):
        future.result(PATIENCE)
    assert stage.address_book.dead == 0


@pytest.mark.guarantee("G128")
def test_an_ask_that_has_waited_is_taken_back_where_it_went(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE)
    future = handle.count.future()
    stage.open()
    future.cancel()
    settle(stage.loop)
    assert stage.loop.ask_statistics().answered == 0
    assert stage.loop.ask_statistics().cancelled == 1


@pytest.mark.guarantee("G127")
def test_one_that_does_not_wait_is_not_refused_when_somebody_has_come_meanwhile(stage: Stage) -> None:
    first = stage.open()
    handle = stage.handle(WhenDown.FAIL)
    stage.fall(first)
    actor = stage.open()
    role_ref = RoleRef(stage.address_book, "office", "clerk", Clerk, WhenDown.FAIL, 0.0)
    # As if another thread had renewed the handle between our look and our question.
    assert role_ref.hold(checked_handle(handle), methods_of(Clerk)[0], 1, None, False) == RETRY  # noqa: FBT003  # by position in C
    assert stage.address_book.find("office", "clerk") is actor


@pytest.mark.guarantee("G129")
def test_what_goes_to_another_process_is_packed_in_the_call(stage: Stage) -> None:
    packed: list[object] = []

    def pack(_handle: Handle, method: Method, data: object) -> object:
        if callable(data):
            raise TypeError(f"{method.name} cannot be sent")
        packed.append(list(cast("list[int]", data)))
        return packed[-1]

    role_ref = RoleRef(stage.address_book, "office", "clerk", Clerk, WhenDown.QUEUE, SOON, pack)
    handle = cast("Clerk", stage.loop.handle_at(Clerk, role_ref, name="clerk"))
    with pytest.raises(TypeError, match="note cannot be sent"):
        handle.note(print)
    mine = [1]
    handle.note(mine)
    mine.append(2)
    stage.open()
    settle(stage.loop)
    assert stage.book == [[1]]


# --- another policy ---------------------------------------------------------------------------------------------------------


def test_each_handle_has_its_own_policy(stage: Stage) -> None:
    handle = stage.handle(WhenDown.QUEUE)
    hasty = when_down(handle, WhenDown.FAIL)
    with pytest.raises(PodDownError):
        hasty.note(1)
    handle.note(2)
    assert stage.address_book.waiting == 1
    assert hasty == handle
    assert hash(hasty) == hash(handle)


def test_another_policy_needs_a_handle_of_a_role(stage: Stage) -> None:
    plain = stage.loop.spawn(Clerk, [])
    with pytest.raises(InvalidArgumentError, match="which is not restarted"):
        when_down(plain, WhenDown.FAIL)
    with pytest.raises(InvalidArgumentError, match="is not a handle"):
        when_down(3, WhenDown.FAIL)
    with pytest.raises(InvalidArgumentError, match=r"policy is 'fail': pass one of WhenDown.WAIT"):
        when_down(stage.handle(), "fail")  # type: ignore[arg-type]  # what a caller without types might do
    with pytest.raises(InvalidArgumentError, match="timeout is -1"):
        when_down(stage.handle(), WhenDown.WAIT, timeout=-1)
    with pytest.raises(InvalidArgumentError, match="timeout is True"):
        when_down(stage.handle(), WhenDown.WAIT, timeout=True)
    when_down(stage.handle(), WhenDown.WAIT, timeout=timedelta(seconds=1))


# --- any order of events ----------------------------------------------------------------------------------------------------


class Office(RuleBasedStateMachine):
    """Sends, falls, restarts and deadlines in any order: every message has exactly one fate, and order holds."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = Stage(capacity=4)
        self.handle = self.stage.handle(WhenDown.QUEUE)
        self.actor: ActorId | None = None
        self.sent: list[int] = []
        self.refused = 0
        self.is_gone = False

    @rule()
    def send(self) -> None:
        number = len(self.sent) + self.refused
        try:
            self.handle.note(number)
        except (PodDownError, PodGoneError):
            self.refused += 1
        else:
            self.sent.append(number)

    @precondition(lambda self: self.actor is None and not self.is_gone)
    @rule()
    def open(self) -> None:
        self.actor = self.stage.open()

    @precondition(lambda self: self.actor is not None)
    @rule(tells=st.booleans())
    def fall(self, tells: bool) -> None:
        settle(self.stage.loop)
        assert self.actor is not None
        self.stage.loop.kill_actor(self.actor)
        if tells:
            self.stage.address_book.withdraw("office")
        self.actor = None

    @rule()
    def run_out(self) -> None:
        self.stage.timers.run_out()

    @rule()
    def handle_all(self) -> None:
        settle(self.stage.loop)

    @precondition(lambda self: not self.is_gone)
    @rule()
    def retire(self) -> None:
        settle(self.stage.loop)
        self.stage.address_book.retire("office", "over")
        self.is_gone = True

    @invariant()
    def order_holds(self) -> None:
        assert self.stage.book == sorted(self.stage.book)  # type: ignore[type-var]  # numbers

    def teardown(self) -> None:
        settle(self.stage.loop)
        address_book = self.stage.address_book
        assert len(self.sent) == len(self.stage.book) + address_book.waiting + address_book.dead
        self.stage.loop.destroy()


Office.TestCase.settings = settings(stateful_step_count=30)
TestOffice = pytest.mark.guarantee("G128")(Office.TestCase)


@pytest.mark.guarantee("G164")
def test_a_handle_that_is_noted_while_others_are_forgotten_is_not_forgotten_with_them(stage: Stage) -> None:
    """From another thread, in the very moment: at its end the address_book knows of it."""
    address_book = stage.address_book
    stage.open()
    late = stage.handle()
    noting = threading.Thread(target=address_book.track, args=(checked_handle(late),))

    class Moment:
        """Stands where a handle is noted, and is looked at when those are forgotten that nobody has any more."""

        def __call__(self) -> None:
            if noting.ident is None:
                noting.start()
                noting.join(0.05)

    address_book._handles += [cast("ref[Handle]", Moment())] * 64
    address_book.track(checked_handle(stage.handle()))
    noting.join(PATIENCE)
    address_book.close("all is over")
    with pytest.raises(PodGoneError):
        late.note(1)
