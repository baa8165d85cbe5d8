"""The table of ids: no number is ever given out twice, and a used-up index is retired."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bandstand.core import ActorId, ActorStatus, Loop, LoopConfig
from bandstand.core.ids import ActorTable
from bandstand.core.mailbox import ActorCell
from bandstand.errors import MaxActorsError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import Seen, record, settle

INDEX = (1 << 24) - 1


class TableAgainstDict(RuleBasedStateMachine):
    """The model: who is alive, and every number there ever was."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, ActorCell] = {}
        self.ever: set[int] = set()

    @initialize(tag=st.integers(1, 0xFFFF), capacity=st.integers(1, 5), last=st.integers(1, 3))
    def set_up(self, tag: int, capacity: int, last: int) -> None:
        self.tag, self.capacity, self.last = tag, capacity, last
        self.table = ActorTable(tag, capacity, last)

    @rule()
    def admit(self) -> None:
        cell = ActorCell()
        actor = self.table.admit(cell)
        if len(self.alive) == self.capacity:
            assert actor is None
            return
        assert actor is not None
        number = int(actor)
        assert number not in self.ever, "no number is given out twice"
        assert number >> 48 == self.tag
        assert (number >> 24) & INDEX > 0
        assert 1 <= number & INDEX <= self.last, "past its last generation an index is retired"
        self.ever.add(number)
        self.alive[number] = cell

    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        if self.alive:
            number = data.draw(st.sampled_from(sorted(self.alive)))
            del self.alive[number]
            self.table.release(number)

    @rule(index=st.integers(0, 30), generation=st.integers(0, 5))
    def find_any(self, index: int, generation: int) -> None:
        number = (self.tag << 48) | (index << 24) | generation
        assert self.table.find(number) is self.alive.get(number)

    @invariant()
    def every_number_finds_its_own_cell_or_nobody(self) -> None:
        for number in self.ever:
            assert self.table.find(number) is self.alive.get(number)
        if hasattr(self, "table"):
            assert self.table.alive == len(self.alive)
            assert set(map(id, self.table.living())) <= set(map(id, self.alive.values()))


TestTableAgainstDict = pytest.mark.spec("J2")(pytest.mark.guarantee("G1")(TableAgainstDict.TestCase))


@pytest.mark.spec("J2")
@pytest.mark.guarantee("G1")
def test_a_table_of_one_seat_and_one_generation_uses_a_new_index_each_time() -> None:
    table = ActorTable(1, 1, 1)
    indexes: list[int] = []
    for _ in range(50):
        actor = table.admit(ActorCell())
        assert actor is not None
        indexes.append((int(actor) >> 24) & INDEX)
        table.release(int(actor))
    assert len(set(indexes)) == 50


@pytest.mark.spec("J2", "J10")
@pytest.mark.guarantee("G1", "G2")
@given(
    capacity=st.integers(1, 4),
    steps=st.lists(st.tuples(st.sampled_from(["spawn", "stop", "send"]), st.integers(0, 20), st.booleans())),
)
def test_a_stale_id_never_reaches_another(capacity: int, steps: list[tuple[str, int, bool]]) -> None:
    """Seats are few, so they are used again and again; old ids are kept, and numbers of them too, and tried."""
    with Loop(LoopConfig(max_actors=capacity), clock=VirtualClock()) as loop:
        actors: list[ActorId] = []
        inboxes: list[list[Seen]] = []
        expected: list[list[object]] = []
        alive: set[int] = set()
        for count, (step, which, as_number) in enumerate(steps):
            if step == "spawn":
                inbox: list[Seen] = []
                try:
                    actors.append(loop.spawn(record, inbox))
                except MaxActorsError:
                    assert len(alive) == capacity
                    continue
                assert len(alive) < capacity
                alive.add(len(actors) - 1)
                inboxes.append(inbox)
                expected.append([])
                continue
            if not actors:
                continue
            number = which % len(actors)
            target = int(actors[number]) if as_number else actors[number]
            try:
                if step == "send":
                    loop.send(target, count)
                    expected[number].append(count)
                    settle(loop)
                else:
                    loop.stop_actor(target)
                assert number in alive
            except NoSuchActorError:
                assert number not in alive
            if step == "stop":
                alive.discard(number)
        assert [[message.data for message in inbox] for inbox in inboxes] == expected
        assert len({int(actor) for actor in actors}) == len(actors)
        for number, actor in enumerate(actors):
            assert loop.status(actor) is (ActorStatus.RUNNING if number in alive else ActorStatus.STOPPED)
