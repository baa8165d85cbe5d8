"""State machines, compared with a model: the stack of states, timeouts, and postponed messages."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bandstand.actor import ActorSystem, Machine, State, tell
from bandstand.actor.state_machine import MAX_PUSHED
from bandstand.testing import VirtualClock
from tests.core.support import check_statistics, settle

TIMES = {"b": 10, "d": 25}


class Four(Machine):
    """`a` handles notes; so does `b`, for 10 ms; `c` postpones them; `d` does not mention them, for 25 ms."""

    def __init__(self, log: list[Any]) -> None:
        self.log = log

    @tell
    def note(self, number: int) -> None: ...

    @tell
    def go(self, state: str, push: bool) -> None:
        self.become(getattr(Four, state), push=push)

    @tell
    def back(self) -> None:
        self.unbecome()

    a = State()
    b = State(timeout=TIMES["b"] / 1000)
    c = State(postpones=(note,))
    d = State(timeout=TIMES["d"] / 1000)

    @a.on(note)
    def note_a(self, number: int) -> None:
        self.log.append(("a", number))

    @b.on(note)
    def note_b(self, number: int) -> None:
        self.log.append(("b", number))

    @b.timeout
    def late_b(self) -> None:
        self.log.append("late b")
        self.become(Four.c)

    @d.timeout
    def late_d(self) -> None:
        # The state stays, and has no second timeout until it is entered again.
        self.log.append("late d")

    @c.enter
    def on_c(self) -> None:
        self.log.append("+c")

    @c.leave
    def off_c(self) -> None:
        self.log.append("-c")


class MachineAgainstModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.loop = ActorSystem(clock=self.clock)
        self.seen: list[Any] = []
        self.four = self.loop.spawn(Four, self.seen)
        self.log: list[Any] = []
        self.line: deque[tuple[Any, ...]] = deque()
        self.kept: list[tuple[Any, ...]] = []
        self.state, self.below = "a", list[str]()
        self.visit = 0
        self.due: int | None = None
        self.now = self.number = self.unhandled = 0
        # How deep it will be when all that waits is handled.
        self.depth = 0

    @rule(count=st.integers(1, 4))
    def send(self, count: int) -> None:
        for _ in range(count):
            self.number += 1
            self.four.note(self.number)
            self.line.append(("note", self.number))

    @precondition(lambda self: self.depth < MAX_PUSHED)
    @rule(state=st.sampled_from("abcd"), push=st.booleans())
    def go(self, state: str, push: bool) -> None:
        self.four.go(state, push)
        self.line.append(("go", state, push))
        self.depth += push

    @precondition(lambda self: self.depth > 0)
    @rule()
    def back(self) -> None:
        self.four.back()
        self.line.append(("back",))
        self.depth -= 1

    @rule(ms=st.sampled_from([0, 1, 5, 9, 10, 11, 25, 100]))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms / 1000)
        settle(self.loop)
        self.now += ms
        if self.due is not None and self.due <= self.now:
            # Behind what waits: it has come later.
            self.line.append(("timeout", self.visit))
            self.due = None
        self.handle_all()

    def handle_all(self) -> None:
        while self.line:
            step = self.line.popleft()
            if step[0] == "go":
                if step[2]:
                    self.below.append(self.state)
                self.move(step[1])
            elif step[0] == "back":
                self.move(self.below.pop())
            elif step[0] == "timeout":
                if step[1] == self.visit:
                    self.log.append(f"late {self.state}")
                    if self.state == "b":
                        self.move("c")
            elif self.state in "ab":
                self.log.append((self.state, step[1]))
            elif self.state == "c":
                self.kept.append(step)
            else:
                self.unhandled += 1

    def move(self, state: str) -> None:
        if self.state == "c":
            self.log.append("-c")
        self.state = state
        self.visit += 1
        self.due = self.now + TIMES[state] if state in TIMES else None
        if state == "c":
            self.log.append("+c")
        self.line.extendleft(reversed(self.kept))
        self.kept = []

    @invariant()
    def same(self) -> None:
        assert self.seen == self.log
        assert self.loop.ask_statistics().unhandled == self.unhandled
        assert self.loop.statistics().waiting == len(self.line) + len(self.kept)
        assert self.loop.statistics().timers_pending <= 1
        check_statistics(self.loop)

    def teardown(self) -> None:
        self.loop.destroy()


TestMachine = pytest.mark.guarantee("G239", "G240", "G241", "G242")(MachineAgainstModel.TestCase)
TestMachine.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
