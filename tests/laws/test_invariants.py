"""The invariants of the loop, one test each. The sixth, about descriptors, is in `test_io.py`."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import (
    ActorId,
    ActorStatus,
    Context,
    ExitReason,
    Lane,
    Loop,
    LoopConfig,
    Overflow,
    TimerId,
    Verdict,
)
from bandstand.errors import InvalidTimerError, LoopClosedError, MailboxFullError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import (
    USER_LANES,
    RecordingObserver,
    Seen,
    check_statistics,
    collect,
    exits,
    failer,
    idle,
    panicker,
    record,
    settle,
    stopper,
)

lanes = st.sampled_from(USER_LANES)


@pytest.mark.spec("J24", "J2")
@pytest.mark.guarantee("G1")
@given(lives=st.lists(st.integers(1, 4), min_size=1, max_size=30), seats=st.integers(1, 3))
def test_invariant_1_identity(lives: list[int], seats: int) -> None:
    """A freed actor's id never refers to another: every id ever given out names its own actor or nobody."""
    with Loop(LoopConfig(max_actors=seats), clock=VirtualClock()) as loop:
        everybody: list[tuple[ActorId, list[Any]]] = []
        living: list[ActorId] = []
        for life in lives:
            if len(living) == seats:
                loop.stop_actor(living.pop(life % seats))
            inbox: list[Any] = []
            actor = loop.spawn(collect, inbox)
            everybody.append((actor, inbox))
            living.append(actor)
            for known, _ in everybody:
                for address in (known, int(known)):
                    assert loop.try_send(address, int(known)) is (known in living)
            settle(loop)
        assert len({int(actor) for actor, _ in everybody}) == len(everybody)
        for actor, inbox in everybody:
            assert set(inbox) <= {int(actor)}, "somebody else's message"


@pytest.mark.spec("J24", "J7")
@pytest.mark.guarantee("G5")
@given(
    sends=st.lists(st.tuples(st.integers(0, 3), lanes, st.booleans()), max_size=120),
    budget=st.integers(1, 10),
    visits=st.integers(1, 4),
)
def test_invariant_2_ordering(sends: list[tuple[int, Lane, bool]], budget: int, visits: int) -> None:
    """For each actor, messages of one lane are handled in the order of the sends, whenever ticks come between."""
    with Loop(
        LoopConfig(max_msgs_per_actor=budget, max_actors_per_tick=visits), clock=VirtualClock()
    ) as loop:
        inboxes: list[list[Seen]] = [[] for _ in range(4)]
        actors = [loop.spawn(record, inbox) for inbox in inboxes]
        expected: dict[tuple[int, Lane], list[int]] = {}
        for number, (who, lane, ticking) in enumerate(sends):
            loop.send(actors[who], number, lane=lane)
            expected.setdefault((who, lane), []).append(number)
            if ticking:
                loop.poll_once()
        settle(loop)
        for who, inbox in enumerate(inboxes):
            for lane in USER_LANES:
                assert [m.data for m in inbox if m.lane is lane] == expected.get((who, lane), [])


@pytest.mark.spec("J24", "J4")
@pytest.mark.guarantee("G4", "G10")
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["send", "try_send", "tick", "stop", "fail", "panic", "spawn"]),
            st.integers(0, 9),
            lanes,
        ),
        max_size=120,
    ),
    cap=st.integers(5, 9),
    policy=st.sampled_from(Overflow),
)
def test_invariant_3_at_most_once(steps: list[tuple[str, int, Lane]], cap: int, policy: Overflow) -> None:
    """Enqueued and seen exactly once (or a counted dead letter, or given up by the policy asked for), or refused."""
    diary = RecordingObserver()
    handled: Counter[int] = Counter()

    def behavior(ctx: Context[Any], data: int) -> Verdict | None:
        handled[data] += 1
        if data < 0:
            raise ValueError(data)
        return None

    with Loop(clock=VirtualClock()) as loop:
        loop.set_observer(diary)
        actors = [loop.spawn(behavior, mailbox_cap=cap, overflow=policy)]
        accepted: set[int] = set()
        refused = 0
        for number, (step, which, lane) in enumerate(steps, 1):
            target = actors[which % len(actors)]
            try:
                if step == "send":
                    loop.send(target, number, lane=lane)
                    accepted.add(number)
                elif step == "panic":
                    loop.send(target, -number, lane=lane)
                    accepted.add(-number)
                elif step == "try_send":
                    if loop.try_send(target, number, lane=lane):
                        accepted.add(number)
                    else:
                        refused += 1
                elif step == "tick":
                    loop.poll_once()
                elif step == "stop":
                    loop.stop_actor(target)
                elif step == "fail":
                    loop.fail_actor(target)
                else:
                    actors.append(loop.spawn(behavior, mailbox_cap=cap, overflow=policy))
            except (MailboxFullError, NoSuchActorError):
                refused += step in {"send", "panic"}
        settle(loop)
        fates = Counter(handled)
        fates.update(data for _, _, data, *_ in diary.dead if isinstance(data, int))
        fates.update(data for _, _, data, *_ in diary.dropped if isinstance(data, int))
        assert fates == Counter(accepted), (
            "each accepted message has exactly one fate, and no other message has one"
        )
        books = loop.statistics()
        assert (books.handled, books.dead, books.dropped) == (
            handled.total(),
            len(diary.dead),
            len(diary.dropped),
        )
        assert (books.refused, books.sent) == (refused, len(accepted) + refused)
        check_statistics(loop)


@pytest.mark.spec("J24", "J18")
@pytest.mark.guarantee("G23")
@given(
    children=st.lists(st.sampled_from(["stop", "fail", "panic", "killed", "failed", "lives"]), max_size=40),
    boss_dies_after=st.none() | st.integers(0, 40),
    filler=st.integers(0, 3),
)
def test_invariant_4_supervision(children: list[str], boss_dies_after: int | None, filler: int) -> None:
    """Exactly one CHILD_EXIT for each end, unless the supervisor is dead."""
    behaviors = {"stop": stopper, "fail": failer, "panic": panicker}
    reasons = {
        "stop": ExitReason.NORMAL,
        "fail": ExitReason.FAIL,
        "panic": ExitReason.PANIC,
        "killed": ExitReason.NORMAL,
        "failed": ExitReason.FAIL,
    }
    with Loop(clock=VirtualClock()) as loop:
        inbox: list[Seen] = []
        boss = loop.spawn(record, inbox, mailbox_cap=5)
        actors = [loop.spawn(behaviors.get(how, idle), supervisor=boss) for how in children]
        for _ in range(filler):
            loop.try_send(boss, "filler")
        expected: list[tuple[ActorId, ExitReason]] = []
        for number, (actor, how) in enumerate(zip(actors, children, strict=True)):
            if number == boss_dies_after:
                settle(loop)
                loop.stop_actor(boss)
            if how == "killed":
                loop.stop_actor(actor)
            elif how == "failed":
                loop.fail_actor(actor)
            elif how != "lives":
                loop.send(actor, "die")
                settle(loop)
            if how != "lives" and (boss_dies_after is None or number < boss_dies_after):
                expected.append((actor, reasons[how]))
        settle(loop)
        assert [(note.child, note.reason) for note in exits(inbox)] == expected


@pytest.mark.spec("J24", "J13")
@pytest.mark.guarantee("G16", "G17", "G19")
@given(
    timers=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 300), lanes), max_size=60),
    steps=st.lists(
        st.tuples(st.sampled_from(["advance", "cancel", "stop"]), st.integers(0, 100)), max_size=40
    ),
    cap=st.integers(5, 8),
)
def test_invariant_5_timers(
    timers: list[tuple[int, int, Lane]], steps: list[tuple[str, int]], cap: int
) -> None:
    """Delivered exactly once, or cancelled and never delivered, or gone with the target; and never early."""
    clock = VirtualClock()
    with Loop(clock=clock) as loop:
        start = clock.now_ns()
        delivered: list[tuple[int, int, int]] = []

        def behavior(ctx: Context[int], number: int) -> None:
            delivered.append((number, ctx.state, clock.now_ns() - start))

        actors = [loop.spawn(behavior, who, mailbox_cap=cap) for who in range(3)]
        handles: dict[int, TimerId] = {
            number: loop.send_after(actors[who], ms / 1000, number, lane=lane)
            for number, (who, ms, lane) in enumerate(timers)
        }
        cancelled: set[int] = set()
        for step, number in steps:
            if step == "advance":
                clock.advance(number / 1000)
                settle(loop)
            elif step == "cancel" and handles:
                which = number % len(handles)
                was_delivered = any(entry[0] == which for entry in delivered)
                gone = loop.status(actors[timers[which][0]]) is not ActorStatus.RUNNING
                try:
                    loop.cancel_timer(handles[which])
                    assert not was_delivered
                    assert not gone
                    cancelled.add(which)
                except InvalidTimerError:
                    assert was_delivered or gone or which in cancelled
            elif step == "stop":
                target = actors[number % 3]
                if loop.status(target) is ActorStatus.RUNNING:
                    loop.stop_actor(target)
        clock.advance(1.0)
        settle(loop)
        counts = Counter(number for number, _, _ in delivered)
        for number, (who, _, _) in enumerate(timers):
            if number in cancelled:
                assert counts[number] == 0
            elif loop.status(actors[who]) is ActorStatus.RUNNING:
                assert counts[number] == 1
            else:
                assert counts[number] <= 1
        for number, who, after in delivered:
            assert who == timers[number][0]
            assert after >= timers[number][1] * 1_000_000
        assert loop.statistics().timers_pending == 0


@pytest.mark.slow
@pytest.mark.spec("J24", "J1")
@pytest.mark.guarantee("G26")
@given(
    actors=st.integers(0, 5),
    sends=st.integers(0, 20),
    timers=st.integers(0, 5),
    how=st.sampled_from(["destroy", "request_stop", "both"]),
)
def test_invariant_7_lifetime(actors: int, sends: int, timers: int, how: str) -> None:
    """Once destroyed: no callback, no call but destroy itself; run must error."""
    calls: list[Any] = []
    loop = Loop(clock=VirtualClock())
    diary = RecordingObserver()
    loop.set_observer(diary)
    ids = [loop.spawn(collect, calls) for _ in range(actors)]
    for number in range(sends if ids else 0):
        loop.send(ids[number % actors], number)
    handles = [loop.send_after(ids[number % actors], 0, number) for number in range(timers if ids else 0)]
    if how != "destroy":
        loop.request_stop()
    if how != "request_stop":
        loop.destroy()
        before = list(diary.entries)
        assert len(diary.stopped) == actors
    else:
        before = []
    target = ids[0] if ids else 1
    for call in (
        loop.run,
        lambda: loop.run(until_idle=True),
        loop.poll_once,
        lambda: loop.spawn(idle),
        lambda: loop.send(target, "x"),
        lambda: loop.send_after(target, 0, "x"),
        lambda: loop.stop_actor(target),
        lambda: loop.fail_actor(target),
    ):
        with pytest.raises(LoopClosedError):
            call()
    assert not loop.try_send(target, "x")
    for timer in handles:
        with suppress(InvalidTimerError):
            loop.cancel_timer(timer)
    assert calls == []
    if how != "request_stop":
        assert diary.entries == before
    loop.destroy()
    loop.destroy()
    assert len(diary.stopped) == actors
    assert calls == []
    check_statistics(loop)
