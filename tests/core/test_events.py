"""The events of a loop: always counted, passed to listeners, whatever these raise."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bandstand.core import (
    Context,
    DeadLetter,
    Dropped,
    Lagged,
    Lane,
    Loop,
    Overflow,
    RuntimeEvent,
    Stalled,
    Unhandled,
)
from bandstand.core.events import MAX_IN_A_ROW, MAX_WAITING
from bandstand.errors import InvalidArgumentError, LoopClosedError, WrongThreadError
from bandstand.testing import VirtualClock
from tests.core.support import (
    LoopMaker,
    RecordingObserver,
    StallListener,
    idle,
    in_thread,
    numbers_logged,
    settle,
)


def lose(loop: Loop, *letters: object) -> None:
    """Make an actor, send it something, and stop it before it has handled that."""
    actor = loop.spawn(idle)
    for letter in letters:
        loop.send(actor, letter)
    loop.stop_actor(actor)


@pytest.fixture
def loop(make_loop: LoopMaker) -> Loop:
    return make_loop(sys_reserved=1)


# --- told and counted -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G255", "G256")
def test_a_dead_letter_and_a_drop_are_told_with_what_there_was(loop: Loop, seen: list[RuntimeEvent]) -> None:
    loop.events.listen(seen.append)
    actor = loop.spawn(idle, mailbox_cap=2, overflow=Overflow.DROP_OLDEST)
    loop.send(actor, "old", lane=Lane.CONTROL)
    loop.send(actor, b"new", lane=Lane.CONTROL)
    loop.stop_actor(actor)
    assert seen == [
        Dropped(actor, Lane.CONTROL, "old", "str"),
        DeadLetter(actor, Lane.CONTROL, b"new", "bytes"),
    ]
    assert (loop.events.counts().dropped, loop.events.counts().dead_letters) == (1, 1)


@pytest.mark.guarantee("G255")
def test_a_signal_that_finds_nobody_is_no_dead_letter_of_anybody(loop: Loop) -> None:
    seen: list[RuntimeEvent] = []
    loop.events.listen(seen.append)
    watcher, target = loop.spawn(idle), loop.spawn(idle)
    loop.monitor(watcher, target)
    loop.stop_actor(target)
    loop.stop_actor(watcher)
    assert loop.statistics().dead == 1, "the Down"
    assert seen == []
    assert loop.events.counts().dead_letters == 0


def idle_listener(event: RuntimeEvent) -> None:
    """Hear of it."""


@pytest.mark.guarantee("G256")
@pytest.mark.parametrize("observer_first", [False, True])
def test_an_observer_and_listeners_hear_beside_each_other(loop: Loop, observer_first: bool) -> None:
    seen: list[RuntimeEvent] = []
    diary = RecordingObserver()
    if observer_first:
        loop.set_observer(diary)
    listening = loop.events.listen(seen.append)
    loop.set_observer(diary)
    lose(loop, 1)
    assert (len(seen), len(diary.dead)) == (1, 1)
    listening.cancel()
    lose(loop, 2)
    assert (len(seen), len(diary.dead)) == (1, 2), "the observer stays"
    loop.events.listen(seen.append)
    loop.set_observer(None)
    lose(loop, 3)
    assert (len(seen), len(diary.dead)) == (2, 2), "the listener stays"


@pytest.mark.guarantee("G256")
def test_what_is_left_at_the_end_of_the_loop_is_told(make_loop: LoopMaker, seen: list[RuntimeEvent]) -> None:
    loop = make_loop()
    listening = loop.events.listen(seen.append)
    loop.send(loop.spawn(idle), "unread")
    loop.destroy()
    assert [event.data for event in seen if isinstance(event, DeadLetter)] == ["unread"]
    assert loop.events.counts().dead_letters == 1
    assert not listening.cancel(), "it has ended with the loop"
    with pytest.raises(LoopClosedError):
        loop.events.listen(seen.append)


# --- listeners --------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G257")
@pytest.mark.parametrize("error", [ValueError("x"), GeneratorExit("x")], ids=repr)
def test_a_listener_that_raises(loop: Loop, caplog: pytest.LogCaptureFixture, error: BaseException) -> None:
    seen: list[RuntimeEvent] = []

    def clumsy(event: RuntimeEvent) -> None:
        raise error

    loop.events.listen(clumsy)
    loop.events.listen(seen.append)
    lose(loop, 1, 2)
    loop.events.tell(Lagged("topic", "slow one", 3, is_cut_off=True))
    assert len(seen) == 3
    assert caplog.text.count("a listener of the loop's events raised") == 3
    assert loop.statistics().ended_panic == 0


@pytest.mark.guarantee("G257")
def test_what_a_listener_causes_is_told_after_the_event_at_hand_in_order(loop: Loop) -> None:
    seen: list[tuple[str, object]] = []

    def first(event: RuntimeEvent) -> None:
        assert isinstance(event, DeadLetter)
        seen.append(("first", event.data))
        if event.data == "a":
            lose(loop, "b", "c")
            seen.append(("first", "is done"))

    def second(event: RuntimeEvent) -> None:
        assert isinstance(event, DeadLetter)
        seen.append(("second", event.data))

    loop.events.listen(first)
    loop.events.listen(second)
    lose(loop, "a")
    expected = [("first", "a"), ("first", "is done"), ("second", "a")]
    assert seen == [*expected, *((who, data) for data in "bc" for who in ("first", "second"))]


@pytest.mark.guarantee("G257")
def test_a_listener_that_always_causes_one_more_does_not_hold_the_loop(loop: Loop) -> None:
    seen: list[RuntimeEvent] = []
    handled: list[object] = []

    def endless(event: RuntimeEvent) -> None:
        seen.append(event)
        lose(loop, len(seen))

    loop.events.listen(endless)
    lose(loop, 0)
    assert len(seen) == MAX_IN_A_ROW
    loop.send(loop.spawn(lambda _ctx, data: handled.append(data)), "others have their turn")
    loop.poll_once()
    assert handled == ["others have their turn"]
    assert len(seen) == 2 * MAX_IN_A_ROW
    assert loop.events.counts().untold == 0
    assert loop.events.counts().dead_letters == len(seen) + 1, "one waits to be told"
    loop.destroy()
    counts = loop.events.counts()
    assert counts.dead_letters == len(seen) + counts.untold


@pytest.mark.slow
@pytest.mark.guarantee("G257")
def test_a_listener_that_causes_more_events(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[RuntimeEvent] = []

    def fertile(event: RuntimeEvent) -> None:
        seen.append(event)
        lose(loop, *range(200))

    listening = loop.events.listen(fertile)
    lose(loop, 0)
    for _ in range(3):
        loop.poll_once()
    counts = loop.events.counts()
    assert counts.dead_letters == len(seen) + counts.untold + MAX_WAITING
    assert counts.untold > 0
    assert "were counted but not delivered" in caplog.text
    listening.cancel()


@pytest.mark.guarantee("G258")
def test_listeners_can_change_during_an_event(loop: Loop, seen: list[tuple[str, object]]) -> None:

    def late(event: RuntimeEvent) -> None:
        assert isinstance(event, DeadLetter)
        seen.append(("late", event.data))

    def first(event: RuntimeEvent) -> None:
        assert isinstance(event, DeadLetter)
        seen.append(("first", event.data))
        if event.data == "a":
            lose(loop, "b")  # has happened before the late one came
            loop.events.listen(late)
            assert going.cancel()
            assert not going.cancel()

    loop.events.listen(first)
    going = loop.events.listen(lambda event: seen.append(("going", event)))
    lose(loop, "a")
    lose(loop, "c")
    assert seen == [("first", "a"), ("first", "b"), ("first", "c"), ("late", "c")]


@pytest.mark.guarantee("G258")
def test_another_thread_is_refused(loop: Loop) -> None:
    listening = loop.events.listen(idle_listener)
    for deed in (
        lambda: loop.events.listen(idle_listener),
        lambda: loop.events.tell(Lagged("topic", "slow one", 3, is_cut_off=True)),
        loop.events.counts,
        listening.cancel,
    ):
        assert type(in_thread(deed)) is WrongThreadError
    assert loop.events.counts().lagged == 0
    assert listening.cancel()


async def awaiting(event: RuntimeEvent) -> None:
    """Nobody would await it."""


@pytest.mark.guarantee("G256", "G258")
@pytest.mark.parametrize("wrong", [None, "print", awaiting], ids=str)
def test_what_cannot_listen_or_be_told_is_refused(loop: Loop, wrong: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="plain function"):
        loop.events.listen(wrong)
    with pytest.raises(InvalidArgumentError, match="DeadLetter, Dropped"):
        loop.events.tell(wrong)


@pytest.mark.guarantee("G257")
def test_a_listener_that_presses_ctrl_c_ends_the_loop_as_a_hook_does(make_loop: LoopMaker) -> None:
    loop = make_loop()

    def impatient(event: RuntimeEvent) -> None:
        raise KeyboardInterrupt

    loop.events.listen(impatient)
    loop.send(loop.spawn(lambda _ctx, _data: lose(loop, 1)), None)
    with pytest.raises(KeyboardInterrupt):
        loop.run()


@pytest.mark.guarantee("G259")
@pytest.mark.real_time(reason="a thread is blocked for real, for a few times 20 ms")
@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends at once"])
def test_a_stall_is_told_once_afterwards_on_the_loops_own_thread(
    make_loop: LoopMaker, stalls: StallListener, ends: bool
) -> None:
    loop = make_loop(stall_timeout=0.02)
    seen: list[tuple[RuntimeEvent, bool, bool]] = []
    is_blocking = False
    here = threading.get_ident()
    loop.events.listen(lambda event: seen.append((event, is_blocking, threading.get_ident() == here)))

    def blocks(ctx: Context[None], data: object) -> None:
        nonlocal is_blocking
        is_blocking = True
        assert stalls.heard.acquire(timeout=30)
        is_blocking = False
        if ends:
            loop.request_stop()

    actor = loop.spawn(blocks, name="sleepy")
    loop.send(actor, "letter")
    loop.run(until_idle=True)
    assert seen == [(Stalled(actor, "sleepy", "str", 0.02), False, True)]
    assert loop.events.counts().stalls == 1


@pytest.mark.guarantee("G260")
@pytest.mark.parametrize(
    ("event", "word", "detail"),
    [
        (Unhandled(None, "ann", 4, "Four"), "no method", "Four, for None ann"),  # type: ignore[arg-type]
        (Lagged("news", "bob", 3, is_cut_off=True), "too slow", "bob missed 3 of news and was unsubscribed"),
        (DeadLetter(None, Lane.DATA, 4, "Four"), "dead letters", "1"),  # type: ignore[arg-type]
        (Dropped(None, Lane.DATA, 4, "Four"), "dropped", "1"),  # type: ignore[arg-type]
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_kind_is_logged_once_a_second_with_its_count(
    loop: Loop,
    clock: VirtualClock,
    caplog: pytest.LogCaptureFixture,
    event: RuntimeEvent,
    word: str,
    detail: str,
) -> None:
    loop.events.tell(event)
    settle(loop)
    assert numbers_logged(caplog.records, word) == [(1, 1)]
    assert detail in caplog.text
    for _ in range(9):
        loop.events.tell(event)
        clock.advance(0.099)
        settle(loop)
    assert numbers_logged(caplog.records, word) == [(1, 1)], "less than a second ago"
    clock.advance(0.2)
    settle(loop)
    assert numbers_logged(caplog.records, word) == [(1, 1), (9, 10)], "though nothing new has happened"
    loop.events.tell(event)
    loop.events.tell(event)
    loop.destroy()
    assert numbers_logged(caplog.records, word) == [(1, 1), (9, 10), (2, 12)]
