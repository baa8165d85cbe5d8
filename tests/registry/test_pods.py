"""Inside a pod, an actor can have a name on its own loop until its incarnation ends."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from bandstand.actor import Actor, ask, loop_of
from bandstand.pod import ThreadModel, Troupe, pod
from bandstand.registry import Registry

if TYPE_CHECKING:
    from bandstand.actor import ActorSystem

pytestmark = [
    pytest.mark.guarantee("G202"),
    pytest.mark.real_time(reason="a pod has a thread of its own"),
    pytest.mark.slow,
]


class Clerk(Actor):
    @ask
    def names(self) -> tuple[bool, bool, bool]:
        registry = Registry(cast("ActorSystem", loop_of(self.me)))
        registry.register("clerk", self.me)
        registry.register("clerk", self.me)
        group = registry.group("clerks", Clerk)
        return (registry.find("clerk", Clerk) == self.me, group.join(self.me), group.leave(self.me))


@pytest.mark.timeout(60)
def test_an_actor_of_a_pod_has_a_name_on_its_loop() -> None:
    class Office(Troupe):
        clerk = pod(thread=ThreadModel.DEDICATED).expose(Clerk)

    with Office() as office:
        assert office.clerk.names.blocking() == (True, True, True)
