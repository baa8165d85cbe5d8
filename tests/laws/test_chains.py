"""Chains of asks through any actors, some of them more than once: each is answered or is a cycle, as a model says."""

from __future__ import annotations

import asyncio
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.actor import Actor, ActorSystem, ask, is_alive
from bandstand.errors import AskCycleError
from tests.actor.asking import outcome, run_system

Hop: TypeAlias = tuple[int, bool, bool]
"""To whom, whether by a method that may be handled out of turn, and whether that takes a turn of the host first."""

hops = st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=9)


class Node(Actor, ask_timeout=None):
    """Has no ask timeout, so a cycle that is not found hangs."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.in_turn = 0
        self.most = 0

    async def on(self, path: list[Hop]) -> str:
        if not path:
            return "end"
        (place, is_open, is_slow), *rest = path
        if is_slow:
            await asyncio.sleep(0)
        node = self.nodes[place]
        return await (node.open(rest) if is_open else node.closed(rest))

    @ask(raises=AskCycleError)
    async def closed(self, path: list[Hop]) -> str:
        self.in_turn += 1
        self.most = max(self.most, self.in_turn)
        try:
            return await self.on(path)
        finally:
            self.in_turn -= 1

    @ask(reentrant=True, raises=AskCycleError)
    async def open(self, path: list[Hop]) -> str:
        return await self.on(path)

    @ask
    def overlap(self) -> int:
        return self.most


def foreseen(path: list[Hop]) -> type:
    """Return how a chain ends: an actor that is already in it can be asked only through a reentrant method."""
    busy: set[int] = set()
    for place, is_open, _ in path:
        if place in busy and not is_open:
            return AskCycleError
        busy.add(place)
    return str


async def walk(nodes: list[Node], path: list[Hop]) -> object:
    place, is_open, _ = path[0]
    return await outcome(nodes[place].open(path[1:]) if is_open else nodes[place].closed(path[1:]))


@pytest.mark.guarantee("G245")
@settings(deadline=None)
@given(hops)
def test_a_chain_ends_as_foreseen(path: list[Hop]) -> None:
    async def story(loop: ActorSystem) -> None:
        nodes: list[Node] = []
        nodes += [loop.spawn(Node, nodes) for _ in range(4)]
        assert type(await walk(nodes, path)) is foreseen(path)
        assert all(is_alive(node) for node in nodes)
        assert len(loop.waits()) == 0

    run_system(story)


@pytest.mark.guarantee("G245", "G246")
@settings(deadline=None)
@given(st.lists(hops, min_size=2, max_size=5))
def test_many_chains_at_a_time_all_end(paths: list[list[Hop]]) -> None:
    async def story(loop: ActorSystem) -> None:
        nodes: list[Node] = []
        nodes += [loop.spawn(Node, nodes) for _ in range(4)]
        ends = await asyncio.gather(*(walk(nodes, path) for path in paths))
        assert {type(end) for end in ends} <= {str, AskCycleError}
        # What is not marked is never handled while another such is: an actor has one turn.
        assert all([await node.overlap() <= 1 for node in nodes])
        assert len(loop.waits()) == 0

    run_system(story)
