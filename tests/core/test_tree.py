"""The supervision tree as data and as a drawing."""

from __future__ import annotations

from typing import Any

import pytest

from bandstand.core import ActorId, ActorStatus, Context, Loop, Tree, TreeNode
from bandstand.core.messages import ChildSummary
from bandstand.errors import InvalidArgumentError
from tests.core.child_groups import RecordingChildGroup, add_child, add_supervisor
from tests.core.support import LoopMaker, call_in, idle, run_message, settle

pytestmark = pytest.mark.guarantee("G55")


def shape(node: TreeNode) -> tuple[str, list[Any]]:
    return (node.name, [shape(child) for child in node.children])


def shapes(tree: Tree) -> list[tuple[str, list[Any]]]:
    return [shape(node) for node in tree.roots]


def house(loop: Loop, name: str, supervisor: ActorId | None = None) -> tuple[ActorId, RecordingChildGroup]:
    actor = add_child(loop, idle, name=name, supervisor=supervisor)
    family = RecordingChildGroup(loop)
    loop.kernel.actors.set_child_group(actor, family)
    return actor, family


# --- as data ------------------------------------------------------------------------------------------------------------


def test_a_loop_without_actors_has_an_empty_tree(loop: Loop) -> None:
    tree = loop.tree()
    assert tree.roots == ()
    assert list(tree) == []
    assert str(tree) == "(no actors)"
    assert tree.find("anybody") is None
    with pytest.raises(InvalidArgumentError, match="max_children is 0"):
        tree.draw(max_children=0)
    assert tree.draw(max_children=1) == "(no actors)"


def test_children_stand_under_their_supervisor_in_the_order_of_their_birth(loop: Loop) -> None:
    root = loop.spawn(idle, name="root")
    first = loop.spawn(idle, name="first", supervisor=root)
    loop.spawn(idle, name="second", supervisor=root)
    loop.spawn(idle, name="grandchild", supervisor=first)
    ended = loop.spawn(idle, name="ended")
    loop.spawn(idle, name="orphan", supervisor=ended)
    loop.stop_actor(ended)
    loop.spawn(idle, name="next in the seat")
    assert shapes(loop.tree()) == [
        ("root", [("first", [("grandchild", [])]), ("second", [])]),
        ("orphan", []),
        ("next in the seat", []),
    ]
    loop.request_stop()
    assert len(loop.tree().roots) == 3
    loop.destroy()
    assert loop.tree().roots == ()


def test_an_actor_without_a_name_is_shown_by_its_id(loop: Loop) -> None:
    actor = loop.spawn(idle)
    empty = loop.spawn(idle, name="")
    assert [node.name for node in loop.tree()] == [repr(actor), ""]
    assert loop.tree().find(repr(actor)) is not None
    loop.stop_actor(empty)


def test_a_child_that_its_family_does_not_know_is_shown_after_those_it_knows(loop: Loop) -> None:
    root, family = house(loop, "root")
    stranger, known, ended = (add_child(loop, idle, supervisor=root) for _ in range(3))
    family.children = [known, ended]
    loop.kill_actor(ended)
    (node,) = loop.tree().roots
    assert [(child.actor, child.status) for child in node.children] == [
        (known, ActorStatus.RUNNING),
        (None, None),
        (stranger, ActorStatus.RUNNING),
    ]


def test_iterating_and_finding_come_to_parents_first(loop: Loop) -> None:
    root = loop.spawn(idle, name="root")
    child = loop.spawn(idle, name="same", supervisor=root)
    loop.spawn(idle, name="same", supervisor=child)
    loop.spawn(idle, name="last")
    tree = loop.tree()
    assert [node.name for node in tree] == ["root", "same", "same", "last"]
    found_node = tree.find("same")
    assert found_node is not None
    assert found_node.actor is child


def test_the_tree_can_be_looked_at_from_inside_a_behavior_and_a_child_in_its_init(loop: Loop) -> None:
    drawn: list[str] = []

    def init(ctx: Context[Any]) -> None:
        drawn.append(str(loop.tree()))

    def act(ctx: Context[Any]) -> None:
        add_child(loop, idle, init, name="child", supervisor=ctx.self_id)
        loop.stop_actor(ctx.self_id)
        drawn.append(str(loop.tree()))

    call_in(loop, loop.spawn(run_message, name="boss"), act)
    settle(loop)
    assert drawn == [
        "boss (running, busy with a message)\n└── child (init)",
        "boss (stopping, busy with a message)\n└── child (running)",
    ]


def test_the_drawing(loop: Loop) -> None:
    root, family = house(loop, "root")
    pool, workers = house(loop, "pool", root)
    one, two = (add_child(loop, idle, supervisor=pool) for _ in range(2))
    for _ in range(2):
        loop.send(one, "x")
    workers.shown = [ChildSummary("one", one, 1, ""), ChildSummary("two", two, 3, "significant")]
    last = add_child(loop, idle, supervisor=root)
    family.shown = [
        ChildSummary("pool", pool, 0, ""),
        ChildSummary("cache", None, 2, "restart in 400 ms"),
        ChildSummary("last", last, 0, ""),
    ]
    loop.spawn(idle, name="alone")
    assert str(loop.tree()).splitlines() == [
        "root (running)",
        "├── pool (running)",
        "│   ├── one (running, 2 waiting, 1 restart)",
        "│   └── two (running, 3 restarts, significant)",
        "├── cache (down, 2 restarts, restart in 400 ms)",
        "└── last (running)",
        "alone (running)",
    ]


# --- large --------------------------------------------------------------------------------------------------------------

MANY = 10_000


def chain(loop: Loop, length: int) -> None:
    above: ActorId | None = None
    for number in range(length):
        above = loop.spawn(idle, name=f"n{number}", supervisor=above)


def test_a_deep_chain_is_drawn_with_numbers_instead_of_further_indentation(make_loop: LoopMaker) -> None:
    loop = make_loop()
    chain(loop, 2_000)
    lines = str(loop.tree()).splitlines()
    assert len(lines) == 2_000
    assert lines[63] == "    " * 62 + "└── n63 (running)"
    assert lines[64] == "    " * 63 + "[64] n64 (running)"
    assert lines[-1] == "    " * 63 + "[1999] n1999 (running)"


@pytest.mark.slow
@pytest.mark.parametrize("has_family", [False, True])
def test_10000_children_of_one_are_drawn_in_order(make_loop: LoopMaker, has_family: bool) -> None:
    loop = make_loop()
    root, family = add_supervisor(loop)
    children = [add_child(loop, idle, supervisor=root) for _ in range(MANY)]
    if has_family:
        family.children = children[::-1]
    tree = loop.tree()
    (node,) = tree.roots
    assert [child.actor for child in node.children] == (family.children if has_family else children)
    lines = tree.draw(max_children=None).splitlines()
    assert len(lines) == MANY + 1
    assert lines[1].startswith("├── ")
    assert lines[-1].startswith("└── ")
