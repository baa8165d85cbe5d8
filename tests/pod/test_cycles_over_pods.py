"""An ask cycle over pods ends at once, with an error that prints it: as in one pod."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace

import pytest

from bandstand.actor import Actor, ask
from bandstand.errors import AskCycleError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec
from tests.pod.troupes import COOPERATIVE, DEDICATED, MAIN, PATIENCE, PROCESS

pytestmark = [pytest.mark.guarantee("G296"), pytest.mark.real_time(reason="threads live in real time")]


class Next(Directory):
    beta: Beta
    gamma: Gamma
    alpha: Alpha


class Alpha(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycleError)
    async def begin(self, depth: int) -> str:
        return await self.peers.beta.second.within(PATIENCE)(depth)

    @ask(raises=AskCycleError)
    async def begin_late(self) -> str:
        reply = self.peers.beta.second.within(PATIENCE)(2)
        # By then the other one usually waits for this one; if not, it closes the cycle itself.
        await asyncio.sleep(0.05)
        return await reply

    @ask
    def name(self) -> str:
        return "alpha"

    @ask(reentrant=True)
    def peek(self) -> str:
        return "peeked"


class Beta(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycleError)
    async def second(self, depth: int) -> str:
        if depth == 2:
            return await self.peers.alpha.name.within(PATIENCE)()
        if depth == 0:
            return await self.peers.alpha.peek.within(PATIENCE)()
        return await self.peers.gamma.third.within(PATIENCE)()


class Gamma(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycleError)
    async def third(self) -> str:
        return await self.peers.alpha.name.within(PATIENCE)()

    @ask
    def name(self) -> str:
        return "gamma"


class Circle(Troupe):
    alpha = pod().expose(Alpha, directory(Next))
    beta = pod().expose(Beta, directory(Next))
    gamma = pod().expose(Gamma, directory(Next))


def grouped(**groups: tuple[ThreadModel, str]) -> dict[str, PodSpec]:
    roles = {role.name: role for each in Circle.layout().values() for role in each.roles}
    return {
        name: PodSpec(name=name, thread=thread, roles=tuple(roles[each] for each in names.split()))
        for name, (thread, names) in groups.items()
    }


LAYOUTS = {
    "one pod": grouped(all=(DEDICATED, "alpha beta gamma")),
    "each on its thread": Circle.layout(),
    "each cooperative": {name: replace(each, thread=COOPERATIVE) for name, each in Circle.layout().items()},
    "two and one": grouped(two=(DEDICATED, "beta gamma"), one=(DEDICATED, "alpha")),
    "mixed": grouped(two=(DEDICATED, "alpha gamma"), one=(COOPERATIVE, "beta")),
}

PROCESSES = {
    "all processes": grouped(a=(PROCESS, "alpha"), b=(PROCESS, "beta"), c=(PROCESS, "gamma")),
    "process and threads": grouped(a=(PROCESS, "alpha"), b=(DEDICATED, "beta"), c=(DEDICATED, "gamma")),
    "thread and processes": grouped(a=(DEDICATED, "alpha"), b=(PROCESS, "beta"), c=(PROCESS, "gamma")),
    "process in between": grouped(a=(DEDICATED, "alpha"), b=(PROCESS, "beta"), c=(DEDICATED, "gamma")),
    "process and cooperative": grouped(
        a=(COOPERATIVE, "alpha"), b=(PROCESS, "beta"), c=(COOPERATIVE, "gamma")
    ),
    "two in a process": grouped(two=(PROCESS, "alpha gamma"), one=(DEDICATED, "beta")),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("depth", "last"), [(2, "beta"), (3, "gamma")])
def test_the_ask_that_closes_a_cycle_is_refused(layout: dict[str, PodSpec], depth: int, last: str) -> None:
    with Circle(layout=layout) as troupe:
        with pytest.raises(AskCycleError) as caught:
            troupe.alpha.begin.within(PATIENCE).blocking(depth)
        told = str(caught.value)
        assert told.startswith(f"'{last}' <ActorId ")
        assert "asks 'alpha' <ActorId" in told
        assert "for Alpha.name(), which waits for 'beta' <ActorId" in told
        assert "they would wait for each other until their deadlines" in told
        # Nobody has failed, and nothing is left of it.
        assert troupe.alpha.name.blocking() == "alpha"
        assert troupe.gamma.name.blocking() == "gamma"


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_an_ask_that_may_be_handled_out_of_turn_is_none(layout: dict[str, PodSpec]) -> None:
    with Circle(layout=layout) as troupe:
        assert troupe.alpha.begin.within(PATIENCE).blocking(0) == "peeked"


@pytest.fixture(scope="module", params=PROCESSES.values(), ids=list(PROCESSES))
def circle(request: pytest.FixtureRequest) -> Iterator[Circle]:
    """A running troupe of each layout: starting its processes takes longer than all that is asked of them."""
    with Circle(layout=request.param) as troupe:
        yield troupe


@pytest.mark.slow
def test_a_cycle_through_a_process_is_found(circle: Circle) -> None:
    for depth in (2, 3, 2, 3):
        with pytest.raises(
            AskCycleError, match="they would wait for each other until their deadlines"
        ) as caught:
            circle.alpha.begin.within(PATIENCE).blocking(depth)
        told = str(caught.value)
        assert "Alpha.name()" in told
        assert "Beta.second()" in told
        assert ("Gamma.third()" in told) is (depth == 3)
        # All go on answering.
        assert circle.alpha.name.blocking() == "alpha"
        assert circle.gamma.name.blocking() == "gamma"
        assert circle.beta.second.within(PATIENCE).blocking(2) == "alpha"


@pytest.mark.slow
def test_an_ask_through_a_process_may_be_handled_out_of_turn(circle: Circle) -> None:
    assert circle.alpha.begin.within(PATIENCE).blocking(0) == "peeked"
    assert circle.alpha.begin.within(PATIENCE).blocking(0) == "peeked"
    assert circle.alpha.name.blocking() == "alpha"


@pytest.mark.slow
def test_a_chain_through_processes_is_no_cycle(circle: Circle) -> None:
    # Many wait at once for those that wait themselves.
    chains = [circle.beta.second.within(PATIENCE).future(1) for _ in range(50)]
    names = [circle.alpha.name.within(PATIENCE).future() for _ in range(50)]
    assert [each.result(PATIENCE) for each in chains] == ["alpha"] * 50
    assert [each.result(PATIENCE) for each in names] == ["alpha"] * 50


@pytest.mark.slow
def test_a_wait_that_begins_after_its_ask_closes_a_cycle(circle: Circle) -> None:
    with pytest.raises(AskCycleError):
        circle.alpha.begin_late.within(PATIENCE).blocking()
    assert circle.alpha.name.blocking() == "alpha"


@pytest.mark.slow
def test_many_cycles_at_once_all_end(circle: Circle) -> None:
    begun = [circle.alpha.begin.within(PATIENCE).future(2 + turn % 2) for turn in range(30)]
    for each in begun:
        with pytest.raises(AskCycleError):
            each.result(PATIENCE)
    assert circle.alpha.name.blocking() == "alpha"


@pytest.mark.slow
@pytest.mark.parametrize("depth", [2, 3])
async def test_a_cycle_through_the_main_pod_and_a_process_is_found(depth: int) -> None:
    layout = grouped(a=(MAIN, "alpha"), b=(PROCESS, "beta"), c=(PROCESS, "gamma"))
    async with Circle(layout=layout) as troupe:
        with pytest.raises(AskCycleError, match=r"Alpha\.name\(\)"):
            await troupe.alpha.begin.within(PATIENCE)(depth)
        assert await troupe.alpha.begin.within(PATIENCE)(0) == "peeked"
        assert await troupe.alpha.name() == "alpha"
        assert await troupe.gamma.name() == "gamma"
