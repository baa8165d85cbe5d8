"""An ask cycle over pods ends at once, with an error that prints it: as in one pod."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bandstand.errors import AskCycle
from bandstand.pod.declare import pod
from bandstand.pod.directory import Directory, directory
from bandstand.pod.spec import PodSpec
from bandstand.pod.troupe import Troupe
from bandstand.pod.vocabulary import ThreadModel
from bandstand.service import Actor, ask
from tests.pod.troupes import COOPERATIVE, DEDICATED, PATIENCE

pytestmark = [
    pytest.mark.guarantee("G296"),
    pytest.mark.real_time(reason="threads live in real time"),
]

PATIENT_MS = int(PATIENCE * 1000)


class Next(Directory):
    beta: Beta
    gamma: Gamma
    alpha: Alpha


class Alpha(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycle)
    async def begin(self, depth: int) -> str:
        return await self.peers.beta.second.within(PATIENT_MS)(depth)

    @ask
    def name(self) -> str:
        return "alpha"

    @ask(reentrant=True)
    def peek(self) -> str:
        return "peeked"


class Beta(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycle)
    async def second(self, depth: int) -> str:
        if depth == 2:
            return await self.peers.alpha.name.within(PATIENT_MS)()
        if depth == 0:
            return await self.peers.alpha.peek.within(PATIENT_MS)()
        return await self.peers.gamma.third.within(PATIENT_MS)()


class Gamma(Actor):
    def __init__(self, peers: Next) -> None:
        self.peers = peers

    @ask(raises=AskCycle)
    async def third(self) -> str:
        return await self.peers.alpha.name.within(PATIENT_MS)()

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


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("depth", "last"), [(2, "beta"), (3, "gamma")])
def test_the_ask_that_closes_a_cycle_is_refused(layout: dict[str, PodSpec], depth: int, last: str) -> None:
    with Circle(layout=layout) as troupe:
        with pytest.raises(AskCycle) as caught:
            troupe.alpha.begin.within(PATIENT_MS).blocking(depth)
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
        assert troupe.alpha.begin.within(PATIENT_MS).blocking(0) == "peeked"
