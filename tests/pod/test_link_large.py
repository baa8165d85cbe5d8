"""Large payloads: in chunks, between which everything else finds its place."""

from __future__ import annotations

import gc
import socket
import sys
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import WhenDown
from bandstand.actor.handle import Handle
from bandstand.errors import InvalidArgumentError, InvalidMessageError
from bandstand.pod.handle_pickling import HandleToken, reduce_handle
from bandstand.pod.link.codec import pack_value
from bandstand.pod.link.large_buffers import CHUNK_SIZE, HUGE_SIZE, LARGE, IncomingBuffers
from tests.pod.linking import Role, Scribe, Spot, instance, linked, make_end, scribe_link, soon, until

pytestmark = pytest.mark.spec("S19")

HUGE = 16_000_000


def payload(size: int) -> bytes:
    return bytes(range(251)) * (size // 251 + 1)


@pytest.mark.guarantee("G150")
@pytest.mark.parametrize("size", [LARGE, LARGE + 1, CHUNK_SIZE, CHUNK_SIZE + 1, 5_000_000])
@pytest.mark.parametrize("kind", [bytes, bytearray])
async def test_large_buffers_come_back_as_they_went(size: int, kind: type[Any]) -> None:
    async with scribe_link() as (_near, _far, scribe):
        value = kind(payload(size)[:size])
        answer = await soon(scribe.echo(value))
        assert type(answer) is kind
        assert answer == value


@pytest.mark.guarantee("G150")
async def test_a_command_overtakes_a_huge_message_to_the_same_actor() -> None:
    async with scribe_link() as (near, far, scribe):
        scribe.note(payload(HUGE))
        await until(lambda: near.link.stats().sent == 1)
        scribe.command("first")
        scribe.manage("second")
        await until(lambda: len(far.scribe.notes) == 2)
        assert far.scribe.notes == ["first", "second"]
        await until(lambda: len(far.scribe.notes) == 3)
        assert far.scribe.notes[2] == payload(HUGE)


@pytest.mark.guarantee("G150")
async def test_messages_of_the_same_lane_wait_for_a_huge_one_and_those_to_others_do_not() -> None:
    async with linked(more={"other": Role()}) as (near, far):
        scribe, other = await near.handle(), await near.handle("other")
        there, elsewhere = far.scribe, instance(far.ours["other"])
        scribe.note(payload(HUGE))
        scribe.note("second")
        scribe.note(payload(HUGE))
        scribe.note("fourth")
        other.note("passes")
        other.note(payload(200_000))
        await until(lambda: len(elsewhere.notes) == 2)
        assert elsewhere.notes[0] == "passes"
        assert there.notes == []
        await until(lambda: len(there.notes) == 4)
        assert [len(one) for one in there.notes] == [len(payload(HUGE)), 6, len(payload(HUGE)), 6]
        assert (there.notes[1], there.notes[3]) == ("second", "fourth")


def view(data: bytes) -> Any:
    return memoryview(bytearray(data))


def numpy_array(data: bytes) -> Any:
    return pytest.importorskip("numpy").frombuffer(bytearray(data), "u1")


@pytest.mark.guarantee("G420")
@pytest.mark.parametrize("make", [bytearray, view, numpy_array])
@pytest.mark.parametrize("size", [10, LARGE + 1, HUGE_SIZE + 1])
async def test_a_later_change_of_a_buffer_is_not_seen(make: Callable[[bytes], Any], size: int) -> None:
    async with scribe_link() as (near, far, scribe):
        buffer = make(payload(size)[:size])
        answer = scribe.echo(buffer)
        scribe.note(buffer)
        buffer[0] = buffer[-1] = 255
        got = await soon(answer)
        await until(lambda: near.link.stats().handled == 2)
        (note,) = far.scribe.notes
        assert bytes(got) == bytes(note) == payload(size)[:size]
        # The receiver has its own copy, and may write to it.
        note[0] = 7
        assert got[0] != 7


@pytest.mark.guarantee("G421")
async def test_what_the_receiver_of_a_buffer_gets_is_as_writable_as_what_was_sent() -> None:
    numpy = pytest.importorskip("numpy")
    async with scribe_link() as (_near, _far, scribe):
        large = payload(300_000)
        array = numpy.frombuffer(bytearray(large), "u1")
        frozen = numpy.frombuffer(large, "u1")
        sent = (large, bytearray(large), memoryview(large), memoryview(bytearray(large)), array, frozen)
        got = await soon(scribe.echo(sent))
        assert [type(one) for one in got] == [type(one) for one in sent]
        assert [one.readonly for one in got[2:4]] == [True, False]
        assert [one.flags.writeable for one in got[4:]] == [True, False]
        assert all(bytes(one) == large for one in got)


@pytest.mark.guarantee("G421")
@pytest.mark.parametrize("form", ["i2,f4", ">i4"])
async def test_a_view_with_a_format_that_cannot_be_rebuilt_is_an_error_of_the_call(form: str) -> None:
    numpy = pytest.importorskip("numpy")
    async with scribe_link() as (near, _far, scribe):
        with pytest.raises(
            TypeError, match=r"an argument of type memoryview cannot be pickled \(memoryview: "
        ):
            scribe.pair("fine", memoryview(numpy.zeros(4, form)))
        assert near.link.stats().sent == 0


@pytest.mark.guarantee("G150")
def test_an_immutable_buffer_is_not_copied_on_its_way_out_and_a_mutable_one_is() -> None:
    large = payload(1_000_000)
    changing = bytearray(large)
    parts = pack_value((large, memoryview(large)[7:], changing, memoryview(changing))).parts
    owners = [part.data.obj for part in parts]
    owners = [one.obj if isinstance(one, memoryview) else one for one in owners]
    assert [one is large for one in owners] == [True, True, False, False]
    assert all(one is not changing for one in owners)
    assert [part.is_frozen for part in parts] == [True, True, False, False]


@pytest.mark.guarantee("G150")
@pytest.mark.parametrize(("is_frozen", "kind"), [(True, bytes), (False, bytearray)])
@pytest.mark.parametrize("size", [0, 1, 10, HUGE_SIZE, HUGE_SIZE + 4097])
def test_a_buffer_is_received_as_what_it_was(is_frozen: bool, kind: type[Any], size: int) -> None:
    data = payload(size)[:size]
    buffers = IncomingBuffers()
    place = buffers.reserve(1, size, is_frozen, min(size, 4))
    place[:] = data[:4]
    for start in range(4, size, CHUNK_SIZE):
        chunk = data[start : start + CHUNK_SIZE]
        buffers.reserve(1, size, is_frozen, len(chunk))[:] = chunk
    (got,) = buffers.take([1])
    assert type(got) is kind
    assert got == data


@pytest.mark.guarantee("G151")
@pytest.mark.parametrize("size", [-1, 11, CHUNK_SIZE + 1])
@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_chunk_that_is_too_long_is_refused(size: int, is_frozen: bool) -> None:
    buffers = IncomingBuffers()
    with pytest.raises(InvalidMessageError, match="the link received"):
        buffers.reserve(1, 10, is_frozen=is_frozen, size=size)


@pytest.mark.guarantee("G151")
@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_buffer_that_is_not_complete_is_never_shown(is_frozen: bool) -> None:
    """Its memory is not cleared, so what is not received must not be seen."""
    buffers = IncomingBuffers()
    buffers.reserve(1, 10, is_frozen, 4)[:] = b"abcd"
    with pytest.raises(InvalidMessageError, match="before its buffers"):
        buffers.take([1])
    with pytest.raises(InvalidMessageError, match="whose buffer 1 has not arrived"):
        buffers.take([1])


@pytest.mark.guarantee("G150")
def test_a_buffer_that_is_not_complete_can_be_collected(monkeypatch: pytest.MonkeyPatch) -> None:
    complaints: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)
    buffers = IncomingBuffers()
    cycle: list[Any] = [buffers, buffers.reserve(1, 10, is_frozen=True, size=4)]
    cycle.append(cycle)
    del buffers, cycle
    gc.collect()
    assert not complaints


# --- handles as arguments -----------------------------------------------------------------------------------------------


def resolvable(_passport: HandleToken, _pod: str | None) -> str | None:
    """Every handle can be resolved."""
    return None


class Known(Spot):
    """The place of a stand-in that can be sent to another process."""

    def reduce(self) -> tuple[Any, ...] | None:
        return reduce_handle(HandleToken("token", "Studio", "scribe", Scribe, WhenDown.FAIL, 5.0))


@pytest.mark.guarantee("G150", "G147", "G286")
async def test_a_handle_travels_by_its_passport() -> None:
    asked: list[tuple[Any, ...]] = []
    checked: list[tuple[HandleToken, str | None]] = []

    def check(passport: HandleToken, pod: str | None) -> str | None:
        checked.append((passport, pod))
        return None

    a, b = socket.socketpair()
    async with make_end() as near, make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as far:

        def resolve(*passport: Any) -> Handle:
            asked.append(passport)
            return far.ours["scribe"]  # type: ignore[no-any-return]  # a handle

        far.open(b, "far", "near", {}, resolver=resolve)
        near.open(a, "near", "far", {"scribe": Role()}, check=check)
        actor = (await soon(near.up))["scribe"]
        scribe: Any = near.proxy_loop.handle_at(Scribe, Known(actor), actor=actor)
        scribe.note(scribe)
        await until(lambda: near.link.stats().handled == 1)
        assert far.scribe.notes == [far.ours["scribe"]]
        passport = ("token", "Studio", "scribe", Scribe, WhenDown.FAIL, 5.0, "")
        assert asked == [passport]
        assert checked == [(passport, None)]
        with pytest.raises(TypeError, match="cannot be pickled"):
            scribe.note(far.ours["scribe"])


@pytest.mark.guarantee("G286")
async def test_a_handle_that_cannot_be_resolved_is_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    a, b = socket.socketpair()
    async with make_end() as near, make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as far:

        def resolve(*passport: Any) -> Handle:
            raise InvalidArgumentError(f"{HandleToken(*passport)} means nothing here")

        far.open(b, "far", "near", {}, resolver=resolve)
        near.open(a, "near", "far", {"scribe": Role()}, check=resolvable)
        actor = (await soon(near.up))["scribe"]
        scribe: Any = near.proxy_loop.handle_at(Scribe, Known(actor), actor=actor)
        scribe.note([scribe])
        await until(lambda: near.link.stats().dead == 1)
        assert [(message.role, message.method, message.is_in_doubt) for message in near.dead] == [
            ("scribe", "Scribe.note", False)
        ]
        with pytest.raises(
            TypeError, match=r"cannot be unpickled.*'scribe' of troupe 'Studio' means nothing here"
        ):
            await soon(scribe.echo([scribe]))
        assert far.scribe.notes == []
    assert "the handle of role 'scribe' of troupe 'Studio' means nothing here" in caplog.text
