"""`mailbox=3` is room for three messages in each lane, in every option of typed actors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, child, id_of, tell
from bandstand.actor.handle import has_room
from bandstand.core import Lane
from bandstand.errors import InvalidArgumentError, MailboxFullError
from bandstand.pod import RoleSpec, Troupe, pod
from bandstand.pool import pooled
from bandstand.supervision import ChildSpec, DynamicSpec, SupervisorSpec, spawn_supervisor

pytestmark = pytest.mark.guarantee("G440")

ROOM = 3


class Slow(Actor):
    @tell
    def work(self, number: int) -> None:
        pass

    @tell(lane=Lane.CONTROL)
    def hurry(self) -> None:
        pass


def supervised(loop: ActorSystem) -> Slow:
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("slow", mailbox=ROOM).of(Slow)]))
    return root.handle(Slow, "slow")


def dynamic(loop: ActorSystem) -> Slow:
    root = spawn_supervisor(loop, DynamicSpec(child=child("slow", mailbox=ROOM).each_of(Slow)))
    return root.start_child()


class Parent(Actor):
    def __init__(self, children: list[Slow]) -> None:
        self.children = children

    def on_start(self) -> None:
        self.children.append(self.options(mailbox=ROOM).spawn(Slow))


def owned(loop: ActorSystem) -> Slow:
    children: list[Slow] = []
    loop.spawn(Parent, children)
    return children[0]


MAKERS: dict[str, Callable[[ActorSystem], Slow]] = {
    "options": lambda loop: loop.options(mailbox=ROOM).spawn(Slow),
    "options of an actor": owned,
    "child": supervised,
    "dynamic child": dynamic,
    "pool": lambda loop: pooled(loop, 1, mailbox=ROOM).spawn(Slow).handle,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_each_lane_has_room_for_as_many_messages_as_the_option_says(
    loop: ActorSystem, make: Callable[[ActorSystem], Slow]
) -> None:
    slow = make(loop)
    for number in range(ROOM):
        slow.work(number)
    with pytest.raises(MailboxFullError):
        slow.work(ROOM)
    for _ in range(ROOM):
        slow.hurry()
    assert not slow.hurry.try_send()


def test_has_room_tells_whether_a_lane_takes_one_more(loop: ActorSystem) -> None:
    slow = loop.options(mailbox=ROOM).spawn(Slow)
    method: Any = slow.work
    for number in range(ROOM):
        assert has_room(id_of(slow), method.handle_method.method)
        slow.work(number)
    assert not has_room(id_of(slow), method.handle_method.method)
    slow.kill()
    assert not has_room(id_of(slow), method.handle_method.method)


@pytest.mark.once
def test_a_role_of_a_pod_has_room_for_as_many_messages_as_the_option_says() -> None:
    class Works(Troupe):
        works = pod()
        slow = works.role(mailbox=ROOM).expose(Slow)

    assert Works.__deployment_plan__.spec.lane_capacities == {"slow": ROOM}


@pytest.mark.once
def test_a_raw_child_counts_the_reserved_slots(loop: ActorSystem) -> None:
    raw: ChildSpec[Any] = ChildSpec(
        "raw", lambda _ctx, _data: None, mailbox_cap=loop.config.sys_reserved + ROOM
    )
    typed: ChildSpec[Any] = ChildSpec("typed", lambda _ctx, _data: None, mailbox=ROOM)
    root = spawn_supervisor(loop, SupervisorSpec(children=[raw, typed]))
    for name in ("raw", "typed"):
        for number in range(ROOM):
            loop.send(root.address(name), number)
        assert not loop.try_send(root.address(name), ROOM)


@pytest.mark.once
@pytest.mark.parametrize("mailbox", [0, -1, True, 2.5, "3"])
def test_a_size_below_one_is_refused(loop: ActorSystem, mailbox: int) -> None:
    with pytest.raises(InvalidArgumentError, match=r"mailbox is .*: pass how many messages may wait"):
        loop.options(mailbox=mailbox)
    with pytest.raises(InvalidArgumentError, match=r"mailbox is .*: pass how many messages may wait"):
        child("slow", mailbox=mailbox).of(Slow)
    with pytest.raises(InvalidArgumentError, match=r"mailbox is .*: pass how many messages may wait"):
        RoleSpec(name="slow", kind=Slow, mailbox=mailbox)
