"""`Loop.waits`: which actor waits for which, for what, and since when."""

from __future__ import annotations

import asyncio
from asyncio import Event

import pytest

from bandstand.actor import Actor, ActorSystem, ask, id_of, tell
from bandstand.errors import WrongThreadError
from tests.actor.asking import turns, watch
from tests.actor.players import elsewhere

pytestmark = pytest.mark.guarantee("G247")


class Link(Actor, ask_timeout=None):
    @ask
    async def through(self, *path: Link, gate: Event) -> str:
        if not path:
            await gate.wait()
            return "end"
        return await path[0].through(*path[1:], gate=gate)

    @ask
    async def both(self, one: Link, other: Link, first: Event, last: Event) -> list[str]:
        return list(await asyncio.gather(one.through(gate=first), other.through(gate=last)))

    @tell
    async def mourn(self, other: Link) -> None:
        await other.ended()

    @tell
    def work(self, other: Link, gate: Event) -> None:
        self.background(other.through(gate=gate))


async def test_chains_of_waits_are_listed_and_drawn(virtual_system: ActorSystem) -> None:
    a, b, c = (virtual_system.options(name=name).spawn(Link) for name in "abc")
    gate = Event()
    reply = watch(a.through(b, c, gate=gate))
    await asyncio.sleep(1.5)
    waits = virtual_system.waits()
    assert [(wait.asker_name, wait.target_name, wait.what) for wait in waits] == [
        ("a", "b", "Link.through()"),
        ("b", "c", "Link.through()"),
    ]
    assert all(1.49 <= wait.since <= 1.51 for wait in waits)
    assert [wait.target for wait in waits.of(id_of(a))] == [id_of(b)]
    drawn = str(waits).replace("1501", "1500").replace("1499", "1500")
    assert drawn == ("a waits for b: Link.through(), 1500 ms\n└── b waits for c: Link.through(), 1500 ms")
    gate.set()
    assert await reply == "end"
    assert (len(virtual_system.waits()), str(virtual_system.waits())) == (0, "(no actor waits)")


async def test_an_actor_may_wait_for_several_replies_and_for_an_exit(virtual_system: ActorSystem) -> None:
    a, b, c, d = (virtual_system.options(name=name).spawn(Link) for name in "abcd")
    first, last = Event(), Event()
    reply = watch(a.both(b, c, first, last))
    d.mourn(a)
    await turns()
    assert sorted(str(wait) for wait in virtual_system.waits()) == [
        "a waits for b: Link.through(), 0 ms",
        "a waits for c: Link.through(), 0 ms",
        "d waits for a: its end, 0 ms",
    ]
    assert str(virtual_system.waits()) == (
        "d waits for a: its end, 0 ms\n"
        "├── a waits for b: Link.through(), 0 ms\n"
        "└── a waits for c: Link.through(), 0 ms"
    )
    first.set()
    await turns()
    assert [str(wait) for wait in virtual_system.waits().of(id_of(a))] == [
        "a waits for c: Link.through(), 0 ms"
    ]
    last.set()
    assert await reply == ["end", "end"]
    a.stop()
    await turns()
    assert len(virtual_system.waits()) == 0


async def test_background_work_does_not_count_as_a_wait_of_its_actor(virtual_system: ActorSystem) -> None:
    a, b = (virtual_system.options(name=name).spawn(Link) for name in "ab")
    gate = Event()
    a.work(b, gate)
    await turns()
    assert virtual_system.waits().of(id_of(a)) == ()
    gate.set()
    await turns()


def test_waits_refuses_other_threads(loop: ActorSystem) -> None:
    with pytest.raises(WrongThreadError):
        elsewhere(loop.waits)
