"""The timer wheel, compared with a sorted list, in virtual time."""

from __future__ import annotations

from bisect import insort

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.core.enums import NEVER
from bandstand.core.timer_wheel import Timer, TimerWheel

YEAR = 366 * 24 * 3600 * 1000


# Delays that sit on the seams of the levels (64 ms, 4 s, 4 min, 4 h, 12 d, 2 y), and anything between 0 and years.
def seam(level: int, slots: int, off: int) -> int:
    return max(0, (slots << (6 * level)) + off)


seams = st.builds(seam, st.integers(0, 6), st.integers(0, 64), st.integers(-2, 2))
delays = st.one_of(st.integers(0, 200), seams, st.integers(0, 3 * YEAR)).map(lambda ms: min(ms, 40 * YEAR))


class WheelAgainstList(RuleBasedStateMachine):
    """The model is a list of (deadline, number, timer), kept sorted."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0
        self.wheel = TimerWheel(0)
        self.count = 0
        self.model: list[tuple[int, int]] = []
        self.timers: dict[int, Timer] = {}

    @initialize(start=st.integers(0, 40 * YEAR))
    def begin(self, start: int) -> None:
        self.now = start
        self.wheel = TimerWheel(start)

    @rule(delay=delays, copies=st.integers(1, 4))
    def schedule(self, delay: int, copies: int) -> None:
        """Copies share their deadline, and must keep their order."""
        for _ in range(copies):
            if self.now + delay >= 1 << 42:
                return
            timer = Timer()
            self.wheel.schedule(timer, self.now + delay)
            insort(self.model, (self.now + delay, self.count))
            self.timers[self.count] = timer
            self.count += 1
            assert timer.pending

    @rule(data=st.data())
    @precondition(lambda self: bool(self.model))
    def schedule_with_a_pending_deadline(self, data: st.DataObject) -> None:
        deadline, _ = data.draw(st.sampled_from(self.model))
        if deadline >= self.now:
            self.schedule(deadline - self.now, 1)

    @rule(data=st.data())
    @precondition(lambda self: bool(self.model))
    def cancel(self, data: st.DataObject) -> None:
        entry = data.draw(st.sampled_from(self.model))
        self.model.remove(entry)
        timer = self.timers.pop(entry[1])
        self.wheel.cancel(timer)
        assert not timer.pending

    @rule(jump=delays, limit=st.none() | st.integers(0, 3))
    def advance(self, jump: int, limit: int | None) -> None:
        """Expire timers, and take all of them or a limited number."""
        if self.now + jump >= 1 << 42:
            return
        self.now += jump
        self.wheel.expire(self.now)
        assert self.wheel.time == self.now
        taken = 0
        while limit is None or taken < limit:
            timer = self.wheel.take()
            if timer is None:
                assert not self.model or self.model[0][0] > self.now
                break
            deadline, number = self.model.pop(0)
            assert timer is self.timers.pop(number), "by deadline, then by registration"
            assert deadline <= self.now, "never early"
            assert not timer.pending
            taken += 1

    @rule()
    def turn_when_the_wheel_asks_for_it(self) -> None:
        """Sleep until `soonest`, as the event loop does: it leads to the next deadline in a few steps."""
        if not self.model:
            self.advance(0, None)
            assert self.wheel.soonest == NEVER
            return
        for _ in range(8):
            if self.wheel.soonest > max(self.model[0][0], self.now):
                break
            self.advance(max(0, self.wheel.soonest - self.now), 0)
            if self.now >= self.model[0][0]:
                self.advance(0, None)
                return
        raise AssertionError("the wheel did not reach its next deadline")

    @invariant()
    def pending_is_counted(self) -> None:
        assert self.wheel.pending == len(self.model)

    @invariant()
    def soonest_is_never_later_than_the_next_deadline(self) -> None:
        if self.model:
            assert self.wheel.soonest <= max(self.model[0][0], self.wheel.time)


TestWheelAgainstList = pytest.mark.spec("C6", "J13")(
    pytest.mark.guarantee("G16", "G17", "G18")(WheelAgainstList.TestCase)
)
