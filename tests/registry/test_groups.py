"""Groups: members, messages and notifications."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import ActorSystem, child, id_of
from bandstand.core import Lagged, RuntimeEvent
from bandstand.errors import ActorNotLocalError, InvalidArgumentError, NoSuchActorError, WrongThreadError
from bandstand.registry import Registry, Told
from bandstand.testing import VirtualClock
from tests.actor.players import elsewhere
from tests.actor.workers import one_for_one
from tests.core.support import settle
from tests.registry.actors import Clerk, Database, Replica, Witness

pytestmark = pytest.mark.guarantee("G206")

LoopMaker = Callable[..., ActorSystem]


def test_members_are_ordered_and_alive(loop: ActorSystem) -> None:
    group = Registry(loop).group("dbs", Database)
    members = [loop.spawn(Database) for _ in range(4)]
    assert [group.join(member) for member in (*members, members[0])] == [True] * 4 + [False]
    assert group.members() == tuple(members)
    members[1].stop()
    assert group.members() == (members[0], members[2], members[3])
    assert group.leave(members[0])
    assert not group.leave(members[0])
    assert not group.leave(members[1])
    assert group.join(members[0])
    assert group.members() == (members[2], members[3], members[0])
    assert len(group) == 3
    assert "'dbs' of Database: 3" in repr(group)


def test_a_group_has_one_name_and_one_class(loop: ActorSystem) -> None:
    registry = Registry(loop)
    group = registry.group("dbs", Database)
    assert registry.group("dbs", Database) is group
    assert Registry(loop).group("dbs", Database) is not group
    with pytest.raises(InvalidArgumentError, match="group 'dbs' is of Database, not of Clerk"):
        registry.group("dbs", Clerk)
    with pytest.raises(InvalidArgumentError, match="is a Clerk, not a Database"):
        group.join(loop.spawn(Clerk))  # type: ignore[arg-type]  # what is tested
    assert group.join(loop.spawn(Replica))


def test_wrong_members_are_refused(loop: ActorSystem, make_loop: LoopMaker) -> None:
    group = Registry(loop).group("dbs", Database)
    ended = loop.spawn(Database)
    ended.stop()
    with pytest.raises(NoSuchActorError):
        group.join(ended)
    with pytest.raises(ActorNotLocalError):
        group.join(make_loop().spawn(Database))
    with pytest.raises(InvalidArgumentError, match="is not a handle"):
        group.join(loop.spawn_raw(lambda ctx, data: None))  # type: ignore[arg-type]  # what is tested
    for deed in (group.members, lambda: group.tell(Database.store, 1), lambda: group.join(ended)):
        with pytest.raises(WrongThreadError):
            elsewhere(deed)
    assert group.members() == ()


def test_a_message_goes_to_every_member(loop: ActorSystem) -> None:
    group = Registry(loop).group("dbs", Database)
    book: list[Any] = []
    group.join(loop.spawn(Database, book))
    group.join(loop.spawn(Replica, book))
    assert group.tell(Database.store, "row") == Told(2, 0)
    assert group.tell(Database.store, row="named") == Told(2, 0)
    settle(loop)
    assert book == ["row", "named", ("replica", "row"), ("replica", "named")]


def test_a_wrong_message_is_sent_to_no_member(loop: ActorSystem) -> None:
    group = Registry(loop).group("dbs", Database)
    book: list[Any] = []
    group.join(loop.spawn(Database, book))
    with pytest.raises(InvalidArgumentError, match="not a one-way method of Database"):
        group.tell(Clerk.work)
    with pytest.raises(InvalidArgumentError, match="not a one-way method of Database"):
        group.tell(Database.rows)  # type: ignore[arg-type]  # what is tested
    with pytest.raises(TypeError):
        group.tell(Database.store, 1, 2)  # type: ignore[call-arg]  # what is tested
    settle(loop)
    assert book == []


def test_a_full_member_is_counted(loop: ActorSystem, clock: VirtualClock) -> None:
    group = Registry(loop).group("dbs", Database)
    heard: list[RuntimeEvent] = []
    loop.events.listen(heard.append)
    small, large = (
        loop.options(mailbox=2).spawn(Database),
        loop.spawn(Database),
    )  # 2 slots besides the system's
    group.join(small)
    group.join(large)
    told = [group.tell(Database.store, number) for number in range(5)]
    assert told == [Told(2, 0)] * 2 + [Told(1, 1)] * 3
    assert heard == [Lagged("group dbs", repr(small), 1, is_cut_off=False)]
    clock.advance(1.001)
    settle(loop)
    assert [event.missed for event in heard if isinstance(event, Lagged)] == [1, 2]


def test_a_supervised_member_survives_restarts(loop: ActorSystem) -> None:
    root = one_for_one(loop, child("db").of(Database))
    group = Registry(loop).group("dbs", Database)
    handle = root.handle(Database, "db")
    group.join(handle)
    assert not group.join(root.handle(Database, "db"))
    root.stop_child("db")
    assert group.members() == ()
    assert group.tell(Database.store, 1) == Told(0, 0)
    root.restart_child("db")
    assert group.members() == (handle,)
    root.stop_child("db")
    root.delete_child("db")
    root.start_child(child("db").of(Database))
    assert group.members() == ()  # another child of that name is another child
    assert group.join(handle)


def test_watchers_hear_of_joins_and_leaves(loop: ActorSystem) -> None:
    group = Registry(loop).group("dbs", Database)
    book: list[Any] = []
    witness = loop.spawn(Witness, lambda: None, book)
    watching = group.watch(witness.changed)
    first, second = loop.spawn(Database), loop.spawn(Database)
    group.join(first)
    group.join(second)
    first.stop()
    group.leave(second)
    settle(loop)
    assert book == [
        (True, id_of(first)),
        (True, id_of(second)),
        (False, id_of(first)),
        (False, id_of(second)),
    ]
    watching.cancel()
    group.join(second)
    settle(loop)
    assert len(book) == 4
