"""`start_child` of a child that is a typed actor returns a handle that stays valid over restarts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, id_of, tell
from bandstand.core import ActorId
from bandstand.errors import NoSuchActorError, NoSuchChildError
from bandstand.supervision import (
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    PartitionSpec,
    RestartPolicy,
    SupervisorSpec,
    spawn_supervisor,
)
from tests.core.support import settle

pytestmark = pytest.mark.guarantee("G441")


class Session(Actor):
    def __init__(self, user: str = "nobody") -> None:
        self.user = user

    @ask
    def who(self) -> str:
        return self.user

    @tell
    def crash(self) -> None:
        raise ConnectionError(self.user)


async def test_a_dynamic_child_is_a_handle_that_survives_a_restart(loop: ActorSystem) -> None:
    sessions = spawn_supervisor(loop, DynamicSpec(child=child("session").each_of(Session)))
    ann = sessions.start_child("ann", name="ann")
    before = id_of(ann)
    ann.crash()
    await asyncio.sleep(0)
    assert await ann.who() == "ann"
    assert id_of(ann) != before
    assert ann == sessions.handle(Session, "ann")
    assert sessions.name_of(ann) == "ann"
    assert sessions.stop_child(ann)
    with pytest.raises(NoSuchActorError):
        ann.crash()


async def test_a_child_of_another_supervisor_is_a_handle_that_survives_a_restart(loop: ActorSystem) -> None:
    class Shard(Session):
        def __init__(self, number: int) -> None:
            self.user = str(number)

    crowd: ChildSpec[None] = ChildSpec("crowd", DynamicSpec(child=child("session").each_of(Session)))
    root = spawn_supervisor(loop, SupervisorSpec(children=[crowd]))
    shards = spawn_supervisor(loop, PartitionSpec(child=child("shard").each_of(Shard), partitions=3))
    ann, shard = root.start_child(child("ann").of(Session, "ann")), shards.route("key")
    assert shard is not None
    number = await shard.who()
    for session, who in ((ann, "ann"), (shard, number)):
        session.crash()
        await asyncio.sleep(0)
        assert await session.who() == who
    assert ann == root.handle(Session, "ann")
    assert shard == shards.handle(Shard, f"shard-{number}")
    nested = root.supervisor("crowd", DynamicSupervisor[Session])
    assert nested is not None
    assert await nested.start_child("bob").who() == "bob"


def test_a_raw_child_is_an_id(loop: ActorSystem) -> None:
    raw: ChildSpec[Any] = ChildSpec("raw", lambda _ctx, _data: None, restart=RestartPolicy.NEVER)
    crowd, root = spawn_supervisor(loop, DynamicSpec(child=raw)), spawn_supervisor(loop, SupervisorSpec())
    assert isinstance(crowd.start_child(), ActorId)
    assert isinstance(root.start_child(raw), ActorId)
    settle(loop)


@pytest.mark.once
def test_an_unknown_handle_is_no_child(loop: ActorSystem) -> None:
    sessions = spawn_supervisor(loop, DynamicSpec(child=child("session").each_of(Session)))
    with pytest.raises(NoSuchChildError, match="is not a child of supervisor"):
        sessions.name_of(loop.spawn(Session))
