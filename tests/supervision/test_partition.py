"""Partition supervisors: the partition of a key, and what a restart means for a key."""

from __future__ import annotations

import sys
from collections import Counter
from subprocess import run
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorId, Context, ExitReason, Loop
from bandstand.errors import InvalidArgumentError, StartError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    Counts,
    PartitionSpec,
    PartitionSupervisor,
    place_of,
    spawn_supervisor,
)
from bandstand.testing import VirtualClock
from tests.core.support import Boom, RecordingObserver, idle, panicker, settle
from tests.supervision.helpers import id_of

pytestmark = pytest.mark.guarantee("G56")

keys = st.text() | st.binary() | st.integers()


def shards(loop: Loop, child: ChildSpec[Any], partitions: int, **fields: Any) -> PartitionSupervisor[ActorId]:
    return spawn_supervisor(loop, PartitionSpec(child=child, partitions=partitions, **fields), name="shards")


# --- where a key goes -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "places"),
    [
        ("", [0, 1, 5, 11, 339]),
        ("ann", [0, 1, 4, 15, 127]),
        ("bob", [0, 0, 6, 60, 324]),
        ("user-1", [0, 1, 1, 63, 255]),
        ("naïve", [0, 1, 5, 13, 45]),
        ("日本", [0, 1, 3, 39, 815]),
        ("\ud800", [0, 0, 2, 20, 492]),
        (b"", [0, 1, 4, 57, 681]),
        (b"ann", [0, 1, 5, 53, 93]),
        (b"\x00\xff", [0, 1, 5, 17, 329]),
        (0, [0, 1, 3, 61, 485]),
        (1, [0, 1, 3, 43, 147]),
        (-1, [0, 0, 3, 40, 904]),
        (42, [0, 0, 3, 2, 922]),
        (10**30, [0, 0, 6, 12, 180]),
    ],
)
def test_places_are_the_same_for_ever(key: str | bytes | int, places: list[int]) -> None:
    assert [place_of(key, partitions) for partitions in (1, 2, 7, 64, 1000)] == places


@pytest.mark.once
def test_places_do_not_depend_on_the_hash_seed() -> None:
    program = (
        "from bandstand.supervision import place_of; print([place_of(f'user-{n}', 97) for n in range(50)])"
    )
    answers = {
        run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
            timeout=50,
        ).stdout
        for seed in ("0", "1", "12345")
    }
    assert answers == {f"{[place_of(f'user-{n}', 97) for n in range(50)]}\n"}


@given(keys, st.integers(1, 1000))
def test_a_place_is_a_place(key: str | bytes | int, partitions: int) -> None:
    assert 0 <= place_of(key, partitions) < partitions


class Text(str):
    """A string that has a hash of its own."""

    __slots__ = ()

    def __hash__(self) -> int:
        return 7


def test_a_string_is_what_it_says_whatever_its_class() -> None:
    assert place_of(Text("user-1"), 1000) == place_of("user-1", 1000) == 255


@pytest.mark.parametrize("key", [True, False, None, 1.0, ("a",), bytearray(b"a"), ExitReason.FAIL, object()])
def test_what_has_no_lasting_hash_is_refused(loop: Loop, key: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="pass a str, bytes or an int"):
        place_of(key, 4)
    supervisor = shards(loop, ChildSpec("shard", idle), 2)
    with pytest.raises(InvalidArgumentError, match="pass a str, bytes or an int"):
        supervisor.route(key)


@pytest.mark.parametrize(
    "some",
    [[f"user-{n}" for n in range(8000)], [f"{n}".encode() for n in range(8000)], list(range(0, 64_000, 8))],
)
def test_keys_are_spread_evenly(some: list[str | bytes | int]) -> None:
    counts = Counter(place_of(key, 8) for key in some)
    assert sorted(counts) == list(range(8))
    assert all(900 < count < 1100 for count in counts.values())


# --- the partitions ---------------------------------------------------------------------------------------------------


def test_every_init_gets_its_number_at_every_start(loop: Loop, diary: RecordingObserver) -> None:
    got: list[int] = []

    def init(ctx: Context[int], index: int) -> int:
        got.append(index)
        return index

    supervisor = shards(loop, ChildSpec("shard", panicker, init=init), 4)
    assert got == [0, 1, 2, 3]
    assert [info.name for info in supervisor.children()] == ["shard-0", "shard-1", "shard-2", "shard-3"]
    assert [name for _, name in diary.started] == ["shards", "shard-0", "shard-1", "shard-2", "shard-3"]
    assert supervisor.partitions == 4
    assert supervisor.count_children() == Counts(4, 4, 0, 4)
    for name in ("shard-2", "shard-0"):
        actor = id_of(supervisor, name)
        loop.send(actor, "panic")
        settle(loop)
    assert got[4:] == [2, 0]
    assert [info.restarts for info in supervisor.children()] == [1, 0, 1, 0]


@pytest.mark.guarantee("G49", "G51")
def test_a_route_is_none_while_its_partition_restarts(loop: Loop, clock: VirtualClock) -> None:
    seen: list[tuple[ActorId, ActorId | None]] = []

    class Watch:
        def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
            seen.append((child, shards_.route("ann")))

    shards_ = shards(loop, ChildSpec("shard", idle, backoff=Backoff(initial=0.05)), 3)
    loop.set_observer(Watch())
    old = shards_.route("ann")
    assert old is not None
    others = [shards_.child(f"shard-{n}") for n in range(3) if n != place_of("ann", 3)]
    loop.fail_actor(old)
    assert shards_.route("ann") is None, "before the exit is handled"
    settle(loop)
    assert shards_.route("ann") is None, "while it waits"
    clock.advance(0.049)
    settle(loop)
    assert shards_.route("ann") is None
    clock.advance(0.001)
    settle(loop)
    new = shards_.route("ann")
    assert new is not None
    assert new != old
    assert seen == [(new, new)]
    assert [shards_.child(f"shard-{n}") for n in range(3) if n != place_of("ann", 3)] == others


@pytest.mark.guarantee("G46")
@pytest.mark.parametrize("bad", [None, 2])
def test_they_stop_from_the_last_to_the_first(loop: Loop, diary: RecordingObserver, bad: int | None) -> None:
    """On request, or because one does not start."""

    def init(ctx: Context[None], index: int) -> None:
        if index == bad:
            raise Boom(index)

    child = ChildSpec("shard", idle, init=init)
    if bad is None:
        shards(loop, child, 3).stop()
        settle(loop)
    else:
        with pytest.raises(StartError, match=r"'shard-2' of supervisor 'shards' did not start: Boom\(2\)"):
            shards(loop, child, 4)
    names = dict(diary.started)
    assert [names[actor] for actor, _ in diary.stopped] == ["shard-2", "shard-1", "shard-0", "shards"]
    assert loop.statistics().alive == 0


@pytest.mark.parametrize("partitions", [0, -3, True, 2.0])
def test_a_place_needs_partitions(partitions: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="partitions is"):
        place_of("key", partitions)


def test_a_key_can_be_an_int_of_any_size(loop: Loop) -> None:
    assert 0 <= place_of(10**5000, 4) < 4
