"""A stash, compared with lists: what is kept, released and left over in each lane; the counters balance after every step."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bandstand.actor import Actor, ActorSystem, Stash, tell
from bandstand.core import Lane, Observer
from bandstand.errors import StashFullError
from bandstand.testing import VirtualClock
from tests.core.support import check_statistics, settle

LIMIT = 4


class Keeper(Actor):
    def __init__(self, log: list[Any]) -> None:
        self.log = log
        self.is_open = False
        self.stash = Stash(self, LIMIT)

    def take(self, what: object) -> None:
        if not self.is_open:
            try:
                self.stash.keep()
            except StashFullError:
                self.log.append(("full", what))
                return
        self.log.append(what)

    @tell
    def low(self, what: int) -> None:
        self.take(what)

    @tell(lane=Lane.CONTROL)
    def high(self, what: int) -> None:
        self.take(what)

    @tell(lane=Lane.MANAGEMENT)
    def turn(self, is_open: bool) -> None:
        self.is_open = is_open
        self.log.append(("released", self.stash.release()))


class Letters(Observer):
    def __init__(self) -> None:
        self.dead: list[object] = []

    def on_dead_letter(self, target: Any, lane: Any, data: object, tag: Any, sender: Any) -> None:
        self.dead.append(data)


class StashAgainstLists(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = ActorSystem(clock=VirtualClock())
        self.letters = Letters()
        self.loop.set_observer(self.letters)
        self.seen: list[Any] = []
        self.keeper = self.loop.spawn(Keeper, self.seen)
        self.log: list[Any] = []
        self.lanes: dict[str, deque[Any]] = {"high": deque(), "turn": deque(), "low": deque()}
        self.kept: list[tuple[str, Any]] = []
        self.is_open = False
        self.number = 0

    @rule(lane=st.sampled_from(["low", "high"]), count=st.integers(1, 6))
    def send(self, lane: str, count: int) -> None:
        for _ in range(count):
            self.number += 1
            getattr(self.keeper, lane)(self.number)
            self.lanes[lane].append(self.number)

    @rule(is_open=st.booleans())
    def turn(self, is_open: bool) -> None:
        self.keeper.turn(is_open)
        self.lanes["turn"].append(is_open)

    @rule()
    def run(self) -> None:
        settle(self.loop)
        while any(self.lanes.values()):
            lane = next(name for name, line in self.lanes.items() if line)
            what = self.lanes[lane].popleft()
            if lane == "turn":
                self.is_open = what
                self.log.append(("released", len(self.kept)))
                for kept_lane, kept in reversed(self.kept):
                    self.lanes[kept_lane].appendleft(kept)
                self.kept = []
            elif self.is_open:
                self.log.append(what)
            elif len(self.kept) < LIMIT:
                self.kept.append((lane, what))
            else:
                self.log.append(("full", what))

    @rule()
    def start_anew(self) -> None:
        """Kill the actor: what it kept is dead before what waits in the same lane."""
        before = len(self.letters.dead)
        self.keeper.kill()
        lines = {name: [what for lane, what in self.kept if lane == name] for name in self.lanes}
        left = [what for name, line in self.lanes.items() for what in (*lines[name], *line)]
        assert self.letters.dead[before:] == left
        self.keeper = self.loop.spawn(Keeper, self.seen)
        self.lanes = {"high": deque(), "turn": deque(), "low": deque()}
        self.kept, self.is_open = [], False

    @invariant()
    def same(self) -> None:
        check_statistics(self.loop)
        waiting = sum(len(line) for line in self.lanes.values()) + len(self.kept)
        assert self.loop.statistics().waiting == waiting
        assert self.seen == self.log

    def teardown(self) -> None:
        self.loop.destroy()
        assert self.loop.statistics().waiting == 0


TestStash = pytest.mark.guarantee("G235", "G236", "G237")(StashAgainstLists.TestCase)
TestStash.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
