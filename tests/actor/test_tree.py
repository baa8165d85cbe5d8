"""The tree of typed actors: classes, what they are busy with, and long lists that are folded."""

from __future__ import annotations

import asyncio

import pytest

from bandstand.actor import Actor, ActorSystem, child, loop_of, tell
from bandstand.errors import InvalidArgumentError
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from tests.core.support import idle, settle


class Till(Actor):
    @tell
    async def count(self, gate: asyncio.Event) -> None:
        await gate.wait()

    @tell
    def look(self, seen: list[str], gate: asyncio.Event) -> None:
        seen.append(str(loop_of(self.me).tree()))
        gate.set()


@pytest.mark.guarantee("G328")
def test_a_typed_actor_has_its_class(loop: ActorSystem) -> None:
    loop.options(name="left").spawn(Till)
    loop.spawn(Till)
    loop.spawn_raw(idle, name="raw")
    spawn_supervisor(loop, SupervisorSpec(children=[child("right").of(Till)]), name="root")
    assert str(loop.tree()).splitlines() == [
        "left: Till (running)",
        "Till (running)",
        "raw (running)",
        "root (running)",
        "└── right: Till (running)",
    ]
    node = loop.tree().find("right")
    assert node is not None
    assert (node.kind, node.busy) == ("Till", "")


@pytest.mark.guarantee("G328")
def test_an_actor_inside_its_turn_is_busy(loop: ActorSystem) -> None:
    seen: list[str] = []
    loop.options(name="left").spawn(Till).look(seen, asyncio.Event())
    settle(loop)
    assert seen == ["left: Till (running, busy with Till.look())"]


@pytest.mark.guarantee("G328")
def test_an_actor_whose_handler_waits_is_busy(loop: ActorSystem) -> None:
    seen: list[str] = []
    till = loop.options(name="left").spawn(Till)
    gate = asyncio.Event()
    till.count(gate)
    till.count(gate)
    loop.options(name="right").spawn(Till).look(seen, gate)
    loop.run(until_idle=True)
    assert seen[0].splitlines()[0] == "left: Till (running, busy with Till.count(), 1 waiting)"


@pytest.mark.guarantee("G329")
def test_long_lists_are_folded(loop: ActorSystem) -> None:
    tree = spawn_supervisor(
        loop, SupervisorSpec(children=[child(f"till {number}").of(Till) for number in range(500)])
    )
    lines = str(loop.tree()).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[-2] == "├── till 19: Till (running)"
    assert lines[-1] == "└── … 480 more"
    tree.stop_child("till 499")
    settle(loop)
    assert str(loop.tree()).splitlines()[-1] == "└── … 480 more (479 running, 1 down)"
    assert len(loop.tree().draw(max_children=None).splitlines()) == 501
    assert loop.tree().draw(max_children=1).splitlines()[1] == "├── till 0: Till (running)"
    assert len(list(loop.tree())) == 501, "iteration folds nothing"
    for wrong in (0, -1, "all", 1.5):
        with pytest.raises(InvalidArgumentError, match="max_children"):
            loop.tree().draw(max_children=wrong)  # type: ignore[arg-type]


@pytest.mark.guarantee("G329")
def test_actors_without_a_supervisor_are_folded_too(loop: ActorSystem) -> None:
    for _ in range(30):
        loop.spawn(Till)
    assert str(loop.tree()).splitlines()[-1] == "… 10 more"
