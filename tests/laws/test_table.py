"""The table of ids: no number is used twice, and an index is retired after its last generation."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from bandstand.core.ids import ActorTable
from bandstand.core.mailbox import ActorCell

INDEX = (1 << 24) - 1


class TableAgainstDict(RuleBasedStateMachine):
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
