"""Ids: one for each incarnation, valid on its own loop."""

from __future__ import annotations

from itertools import count
from typing import Any, cast

import pytest

import bandstand.core.loop
from bandstand.core import ActorId, ActorStatus, Loop
from bandstand.errors import ActorNotLocalError, InvalidArgumentError, NoSuchActorError
from tests.core.support import LoopMaker, Seen, collect, idle, record, settle

INDEX = (1 << 24) - 1


def parts(actor: ActorId) -> tuple[int, int, int]:
    number = int(actor)
    return number >> 48, (number >> 24) & INDEX, number & INDEX


@pytest.mark.spec("J2")
@pytest.mark.guarantee("G1")
def test_an_id_is_64_bits_of_loop_tag_index_and_generation(loop: Loop) -> None:
    first, second = loop.spawn(idle), loop.spawn(idle)
    assert 0 < int(first) < 1 << 64
    assert parts(first)[0] == parts(second)[0] != 0
    assert parts(first)[1] != parts(second)[1]
    assert parts(first)[1] != 0
    assert parts(first)[2] == parts(second)[2] == 1


@pytest.mark.spec("J2")
@pytest.mark.guarantee("G1")
@pytest.mark.parametrize("as_number", [False, True], ids=["object", "number"])
def test_a_stale_id_never_reaches_the_new_tenant(loop: Loop, as_number: bool, seen: list[Any]) -> None:
    old = loop.spawn(idle)
    stale = int(old) if as_number else old
    for _ in range(10):
        loop.stop_actor(old)
        old_again = loop.spawn(collect, seen)
        with pytest.raises(NoSuchActorError):
            loop.send(stale, "for the dead")
        with pytest.raises(NoSuchActorError):
            loop.send_after(stale, 0, "for the dead")
        with pytest.raises(NoSuchActorError):
            loop.stop_actor(stale)
        assert not loop.try_send(stale, "for the dead")
        old = old_again
    settle(loop)
    assert seen == []
    assert loop.status(old) is ActorStatus.RUNNING


@pytest.mark.spec("J2")
@pytest.mark.guarantee("G2")
def test_ids_of_two_loops_with_one_tag(make_loop: LoopMaker, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are 16 bits: the 65,536th loop of a process has the first one's. Its id objects must not."""
    monkeypatch.setattr(bandstand.core.loop, "_loops", count(500))
    first = make_loop()
    monkeypatch.setattr(bandstand.core.loop, "_loops", count(500))
    later = make_loop()
    actor, watcher = first.spawn(idle), later.spawn(idle)
    assert parts(actor)[0] == parts(watcher)[0]
    for refused in (
        lambda: later.send(actor, "x"),
        lambda: later.stop_actor(actor),
        lambda: later.status(actor),
        lambda: later.monitor(watcher, actor),
    ):
        with pytest.raises((ActorNotLocalError, NoSuchActorError)):
            refused()


@pytest.mark.guarantee("G2")
def test_numbers_do_what_ids_do(loop: Loop, seen: list[Seen]) -> None:
    actor = loop.spawn(record, seen)
    loop.send(int(actor), "by number", sender=int(actor))
    loop.send_after(int(actor), 0, "later")
    settle(loop)
    assert [message.data for message in seen] == ["by number", "later"]
    assert seen[0].sender == actor
    assert loop.status(int(actor)) is ActorStatus.RUNNING
    loop.stop_actor(int(actor))
    assert loop.status(actor) is ActorStatus.STOPPED
    with pytest.raises(NoSuchActorError):
        loop.status(int(actor))


@pytest.mark.guarantee("G2")
def test_an_unused_index_and_an_unused_generation_are_nobodys(loop: Loop) -> None:
    number = int(loop.spawn(idle))
    for nobody in (
        number + 1,
        number - 1,
        number + (1 << 24),
        number | (INDEX << 24),
        number | INDEX,
        -1,
        -(1 << 70),
    ):
        with pytest.raises(NoSuchActorError):
            loop.send(nobody, "x")
        assert not loop.try_send(nobody, "x")


@pytest.mark.guarantee("G2")
def test_try_send_returns_false_for_another_loop_and_raises_for_what_is_no_id(make_loop: LoopMaker) -> None:
    here, there = make_loop(), make_loop()
    actor = there.spawn(idle)
    assert not here.try_send(actor, "x")
    assert not here.try_send(int(actor), "x")
    for wrong in (None, "1", 2.5, object(), b"\x01"):
        with pytest.raises(InvalidArgumentError):
            here.try_send(cast("Any", wrong), "x")
    assert (here.statistics().sent, here.statistics().refused) == (2, 2)


def test_ids_compare_hash_and_sort_as_their_numbers(loop: Loop) -> None:
    a, b, c = (loop.spawn(idle) for _ in range(3))
    assert a == int(a)
    assert a != b
    assert hash(a) == hash(int(a))
    assert dict[object, str]({a: "entry"})[int(a)] == "entry"
    assert sorted([c, a, b]) == [a, b, c]
    assert a < b < c
    assert c > b > a
    assert a <= int(a) <= b
    assert b >= int(b) >= a
    assert a < int(b)
    assert bool(a)
    assert a != "a"
    assert a is not None
    with pytest.raises(TypeError):
        _ = a < "a"  # pyright: ignore[reportOperatorIssue]  # on purpose


def test_ids_show_their_three_parts(loop: Loop) -> None:
    actor = loop.spawn(idle)
    tag, index, generation = parts(actor)
    assert repr(actor) == f"<ActorId {tag}.{index}.{generation}>"
