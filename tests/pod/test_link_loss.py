"""The end of a link: what was written and not acknowledged is in doubt, the rest is dead, and everybody who waits is told."""

# One test must say when a link writes.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from msgspec.msgpack import Ext, decode

from bandstand.actor.declaration import methods_of
from bandstand.core import Overflow
from bandstand.errors import NoSuchActorError, TargetEndedError
from bandstand.pod.link.codec import encode, is_plain, plain_size
from bandstand.pod.link.protocol import (
    ACKS,
    ANSWERS,
    BUSY,
    BYE,
    CHUNK,
    CHUNK_HEADER,
    HEADER,
    HELLO,
    MAX_FRAME,
    MESSAGES,
    PROBE,
    SERVE,
    frame,
)
from bandstand.pod.link.transport import WriteQueue
from tests.pod.linking import SOON, End, Role, Scribe, linked, make_end, scribe_link, soon, until

pytestmark = pytest.mark.spec("S19")

# --- in doubt, and dead -------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G144")
async def test_what_was_written_and_not_acknowledged_is_in_doubt_and_is_not_sent_again() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        scribe.note("handled")
        await until(lambda: near.link.stats().handled == 1)
        scribe.slowly(1)
        scribe.slowly(2)
        reply = scribe.wait(3)
        await until(lambda: far.link.stats().received == 4)
        far.link.close("killed by SIGKILL")
        with pytest.raises(TargetEndedError) as caught:
            await soon(reply)
        assert "killed by SIGKILL" in str(caught.value.__cause__)
        assert "in doubt" in str(caught.value.__cause__)
        assert near.downs == ["killed by SIGKILL"]
        stats = near.link.stats()
        assert (stats.sent, stats.handled, stats.in_doubt, stats.dead) == (4, 1, 3, 0)
        assert [(message.method, message.data, message.is_in_doubt) for message in near.dead] == [
            ("Scribe.slowly", 1, True),
            ("Scribe.slowly", 2, True),
            ("Scribe.wait", 3, True),
        ]
        assert near.dead[0].pod == "far"
        assert near.dead[0].role == "scribe"


@pytest.mark.guarantee("G144")
async def test_an_answer_that_was_still_being_written_leaves_its_ask_in_doubt() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        # More than a socket takes at once.
        reply = scribe.wait("x" * 4_000_000)
        await until(lambda: far.scribe.begun)
        far.scribe.gate.set()
        await until(lambda: far.scribe.notes)
        assert far.link.has_unreported
        far.link.close("lost")
        with pytest.raises(TargetEndedError) as caught:
            await soon(reply)
        assert "in doubt" in str(caught.value.__cause__)
        stats = near.link.stats()
        assert (stats.handled, stats.in_doubt, stats.dead) == (0, 1, 0)


@pytest.mark.guarantee("G151")
async def test_the_end_is_seen_though_the_other_side_has_left_something_unread() -> None:
    """Of a socket with an error libuv tells once, and never again: there may be more to read than one read takes, and then the end."""
    async with deaf(Role()) as (near, theirs, scribe):
        scribe.note("never read")
        await until(lambda: near.link.stats().sent == 1)
        near.link.transport.flush()
        # The end comes with something that can be read, and without a good bye.
        theirs.send(frame(MESSAGES, encode([code_of("note"), 2])))
        theirs.close()
        await until(lambda: near.downs)
        assert near.link.stats().in_doubt == 1
        assert near.link.stats().received == 1


@pytest.mark.guarantee("G144")
async def test_a_link_owes_until_everything_it_has_to_say_is_written() -> None:
    async with scribe_link() as (_near, far, scribe):
        assert not far.link.has_unreported
        reply = scribe.echo("x" * 4_000_000)
        await until(lambda: far.link.has_unreported)
        assert len(await soon(reply)) == 4_000_000
        await until(lambda: not far.link.has_unreported)


@asynccontextmanager
async def deaf(role: Role) -> AsyncGenerator[tuple[End, socket.socket, Any]]:
    """An end whose other side has said hello, and then reads nothing at all."""
    ours, theirs = socket.socketpair()
    with theirs:
        async with make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as near:
            theirs.send(frame(HELLO, encode((1, "far", [("scribe", method_names())]))))
            near.open(ours, "near", "far", {"scribe": role})
            yield near, theirs, await near.handle()


async def everything(sock: socket.socket, size: int) -> bytes:
    """Read so much, more or less."""
    sock.settimeout(0)
    received = bytearray()
    while len(received) < size:
        with suppress(BlockingIOError):
            received += sock.recv(70_000)
        await asyncio.sleep(0)
    return bytes(received)


def whole_messages(sock: socket.socket, begun: bytes = b"") -> list[Any]:
    """The messages that came entirely: the numbers of their methods, and their arguments. Some were read before."""
    sock.settimeout(SOON)
    received = bytearray(begun)
    while chunk := sock.recv(1 << 20):
        received += chunk
    at, flat = 0, list[Any]()
    while at + HEADER.size <= len(received):
        size, kind = HEADER.unpack_from(received, at)
        at += HEADER.size
        if kind == MESSAGES and at + size <= len(received):
            flat += decode(received[at : at + size])
        at += size
    return list(zip(flat[::2], flat[1::2], strict=True))


def code_of(name: str) -> int:
    return method_names().index(name) + 1


def method_names() -> list[str]:
    return [method.name for method in methods_of(Scribe)]


@pytest.mark.slow
@pytest.mark.guarantee("G144")
@pytest.mark.parametrize(("size", "read"), [(40, 0), (57, 333_000), (123, 200_000)])
async def test_what_was_not_written_is_dead_and_not_in_doubt(size: int, read: int) -> None:
    async with deaf(Role(mailbox=20_004)) as (near, theirs, scribe):
        for number in range(20_000):
            scribe.note((number, "x" * size))
        await until(lambda: near.link.stats().sent == 20_000)
        # So that the last thing to be written is many frames, of which some go through and some do not.
        begun = await everything(theirs, read)
        for _ in range(50):
            await asyncio.sleep(0)
        assert near.link.is_write_blocked
        near.link.close("it was enough")
        stats = near.link.stats()
        assert stats.in_doubt + stats.dead == 20_000
        assert stats.in_doubt > 100
        assert stats.dead > 100
        # The descriptor is let go in the next turn.
        await asyncio.sleep(0)
        # What is in doubt is exactly what a reader finds whole.
        whole = whole_messages(theirs, begun)
        assert [data[0] for _, data in whole] == list(range(stats.in_doubt))
        doubts = [message.is_in_doubt for message in near.dead]
        assert doubts == [True] * stats.in_doubt + [False] * stats.dead


@pytest.mark.guarantee("G144")
async def test_an_ask_that_was_not_written_ends_without_doubt() -> None:
    async with deaf(Role()) as (near, theirs, scribe):
        for _ in range(500):
            scribe.note([0, "x" * 2000])
        reply = scribe.read()
        await until(lambda: near.link.stats().sent == 501)
        near.link.close("it was enough")
        with pytest.raises(TargetEndedError) as caught:
            await soon(reply)
        assert "the message did not reach it" in str(caught.value.__cause__)
        assert not near.dead[-1].is_in_doubt
        theirs.close()


@pytest.mark.guarantee("G145")
async def test_while_the_other_side_does_not_read_lanes_overtake_what_is_not_written() -> None:
    async with deaf(Role(mailbox=20_004)) as (near, theirs, scribe):
        for number in range(20_000):
            scribe.note((number, "x" * 40))
        await until(lambda: near.link.stats().sent == 20_000)
        scribe.command("command")
        scribe.manage("manage")
        await until(lambda: near.link.stats().sent == 20_002)
        received: list[Any] = []

        def read() -> None:
            received.extend(whole_messages(theirs))

        reader = threading.Thread(target=read)
        reader.start()
        await until(lambda: not near.link.is_write_blocked)
        near.link.close("done")
        await until(lambda: not reader.is_alive())
        codes = [code for code, _ in received]
        commanded, managed = codes.index(code_of("command")), codes.index(code_of("manage"))
        assert commanded < managed < 15_000
        assert [data[0] for code, data in received if code == code_of("note")] == list(range(20_000))
        assert near.link.stats().in_doubt == 20_002


@pytest.mark.guarantee("G146")
async def test_a_stand_in_of_an_actor_that_gives_messages_up_does_so_itself_while_nobody_reads() -> None:
    async with deaf(Role(mailbox=20, overflow=Overflow.DROP_OLDEST)) as (near, _theirs, scribe):
        for number in range(1000):
            scribe.note([number, "x" * 2000])
            await asyncio.sleep(0)
        assert near.link.is_write_blocked
        sent = near.link.stats().sent
        assert sent < 500
        scribe.note(["last"])
        await asyncio.sleep(0)
        assert near.link.stats().sent == sent
        stats = near.proxy_loop.statistics()
        assert stats.dropped == 1001 - sent - stats.waiting
        assert stats.waiting == 20


@pytest.mark.guarantee("G144")
async def test_a_large_message_that_is_under_way_is_dead_with_those_behind_it() -> None:
    async with deaf(Role()) as (near, _theirs, scribe):
        scribe.note(b"x" * 4_000_000)
        scribe.note("behind")
        reply = scribe.echo(b"y" * 4_000_000)
        await until(lambda: near.link.stats().sent == 3)
        near.link.close("it was enough")
        with pytest.raises(TargetEndedError):
            await soon(reply)
        stats = near.link.stats()
        assert (stats.sent, stats.in_doubt, stats.dead) == (3, 0, 3)
        assert [(message.method, message.data) for message in near.dead] == [
            ("Scribe.note", None),
            ("Scribe.note", "behind"),
            ("Scribe.echo", None),
        ]


@pytest.mark.guarantee("G144")
async def test_what_waits_in_a_stand_ins_mailbox_is_dead_and_asks_there_are_told_why() -> None:
    async with scribe_link() as (near, _far, scribe):
        scribe.note(1)
        reply = scribe.read()
        # Nobody had a turn since.
        near.link.close("the pod was stopped")
        with pytest.raises(TargetEndedError, match="FAIL") as caught:
            await soon(reply)
        assert "the pod was stopped" in str(caught.value.__cause__)
        assert near.link.stats().sent == 0
        assert near.proxy_loop.statistics().dead == 2


@pytest.mark.guarantee("G151")
async def test_handles_meet_nobody_after_the_end() -> None:
    async with scribe_link() as (near, far, scribe):
        far.link.close("the end")
        await until(lambda: near.downs)
        with pytest.raises(NoSuchActorError):
            scribe.note(1)
        assert not scribe.note.try_send(1)


@pytest.mark.guarantee("G149")
async def test_asks_of_a_peer_that_is_gone_are_cancelled_here() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        scribe.wait(1)
        scribe.wait(2)
        await until(lambda: far.link.stats().received == 2 and far.scribe.begun == 1)
        near.link.close("gone")
        await until(lambda: far.scribe.cancelled == 1)
        far.scribe.gate.set()
        far.ours["scribe"].note("on")
        await until(lambda: far.scribe.notes == ["on"])
        assert far.scribe.begun == 1


@pytest.mark.guarantee("G144")
async def test_answers_and_acknowledgements_that_are_due_are_written_at_the_end() -> None:
    async with scribe_link() as (near, far, scribe):
        replies = [scribe.echo(number) for number in range(100)]
        for number in range(50):
            scribe.note(number)
        await until(lambda: len(far.scribe.notes) == 50)
        far.link.close("done")
        assert [await soon(reply) for reply in replies] == list(range(100))
        await until(lambda: near.downs == ["done"])
        assert near.link.stats().handled == 150
        assert near.link.stats().in_doubt == 0


# Ten bytes of a buffer of a hundred.
PART_OF_CHUNK = frame(CHUNK, CHUNK_HEADER.pack(0, 100, 1) + b"0123456789")

# --- how it ends --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G151")
@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (HEADER.pack(MAX_FRAME + 1, MESSAGES), "longest allowed"),
        (frame(99, b""), "frame of unknown kind 99"),
        (frame(BUSY, encode("text")), "cannot be decoded"),
        (frame(PROBE, encode([1])), "cannot be decoded"),
        (frame(SERVE, encode([1, 2])), "cannot be decoded"),
        (frame(MESSAGES, b"\xc1"), "cannot be decoded"),
        (frame(MESSAGES, encode({})), "cannot be decoded"),
        (frame(MESSAGES, encode([77, None])), "unknown method"),
        (frame(MESSAGES, encode([1])), "incomplete message"),
        (frame(MESSAGES, encode(["text", None])), "unknown method"),
        (frame(ANSWERS, encode([5, 0, None])), "not pending"),
        (frame(ANSWERS, encode([5])), "incomplete"),
        (frame(ACKS, encode([1, 1, 0, 0])), "not sent"),
        (frame(ACKS, encode([1, 1])), "incomplete"),
        (frame(HELLO, encode((1, "far", []))), "once"),
        (frame(5, b"\0" * 13 + b"more than it has"), "longer than announced"),
        (PART_OF_CHUNK + frame(MESSAGES, encode([1, Ext(2, encode((b"", (0,))))])), "before its buffers"),
        (frame(MESSAGES, encode([1, Ext(2, encode((b"", (5,))))])), "whose buffer 5 has not arrived"),
        (frame(MESSAGES, encode([1, Ext(9, b"")])), "value of unknown kind 9"),
        (frame(MESSAGES, encode([0, []])), "cancellation with the invalid number"),
        (b"\x05", "closed"),
        (b"", "closed"),
    ],
)
async def test_whatever_makes_no_sense_closes_the_link_with_a_sentence(sent: bytes, says: str) -> None:
    async with make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as near:
        ours, theirs = socket.socketpair()
        hello = frame(HELLO, encode((1, "far", [("scribe", method_names())])))
        with theirs:
            theirs.send(hello + sent)
            near.open(ours, "near", "far", {"scribe": Role()})
            await soon(near.up)
            if says == "closed":
                theirs.shutdown(socket.SHUT_WR)
            await until(lambda: near.downs)
            assert says in near.downs[0]
            await until(lambda: ours.fileno() == -1)


@pytest.mark.guarantee("G151")
@pytest.mark.parametrize(
    ("hello", "says"),
    [
        ((2, "far", ()), "version 2"),
        ((1, "elsewhere", ()), "hello of pod 'elsewhere'"),
        ((1, "far", (("scribe", ("other",)),)), "not run the same program"),
    ],
)
async def test_a_stranger_is_not_let_in(hello: tuple[int, str, tuple[Any, ...]], says: str) -> None:
    async with make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as near:
        ours, theirs = socket.socketpair()
        with theirs:
            theirs.send(frame(HELLO, encode(hello)))
            near.open(ours, "near", "far", {"scribe": Role()})
            await until(lambda: near.downs)
            assert says in near.downs[0]
            assert not near.up.done()


async def test_a_role_that_comes_after_the_hello_is_there_for_all_of_its_methods() -> None:
    ours, theirs = socket.socketpair()
    async with make_end() as near, make_end() as far:
        far.open(theirs, "far", "near", {})
        near.open(ours, "near", "far", {"scribe": Role()})
        scribe = await near.handle()
        with pytest.raises(TargetEndedError, match="scribe"):
            await soon(scribe.read())
        far.ours["scribe"] = far.loop.spawn(Scribe)
        scribe.note(1)
        scribe.pair(2)
        assert await soon(scribe.read()) == [1, (2, "b")]


class Homesick:
    """Can be packed, and not be unpacked."""

    def __reduce__(self) -> Any:
        return int, ("home",)


async def test_one_way_messages_that_cannot_be_unpickled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with scribe_link() as (near, _far, scribe):
        scribe.note(Homesick())
        scribe.note(1)
        assert await soon(scribe.read()) == [1]
        await until(lambda: near.link.stats().waiting == 0)
        assert (near.link.stats().handled, near.link.stats().dead) == (2, 1)
        assert len(near.dead) == 1
    assert "role" not in caplog.text
    assert "a message to 'scribe' cannot be unpickled in its process: invalid literal" in caplog.text


@pytest.mark.guarantee("G151")
@pytest.mark.parametrize(
    ("answer", "says"),
    [([1, 9, None], "of unknown kind 9"), ([1, 1, None], ""), (["one", 0, None], "which is not pending")],
)
async def test_whoever_asked_is_told_when_the_answer_makes_no_sense(answer: list[Any], says: str) -> None:
    async with deaf(Role()) as (near, theirs, scribe):
        reply = scribe.read()
        await asyncio.sleep(0)
        theirs.send(frame(ANSWERS, encode(answer)))
        with pytest.raises(TargetEndedError):
            await soon(reply)
        assert says in near.downs[0]
        assert near.link.stats().in_doubt == 1


@pytest.mark.guarantee("G151")
async def test_the_end_is_told_once_and_the_descriptor_is_let_go() -> None:
    ours, theirs = socket.socketpair()
    number = ours.fileno()
    async with make_end() as near:
        near.open(ours, "near", "far", {})
        near.link.close("first")
        near.link.close("second")
        assert near.downs == ["first"]
        await until(lambda: ours.fileno() == -1)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(number)
    received = theirs.recv(1000)
    assert frame(BYE, encode(("first", True, False))) in received
    assert theirs.recv(10) == b""
    theirs.close()


async def test_an_ended_ask_does_not_keep_its_link() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        answered, lost = scribe.echo(1), scribe.wait(1)
        await soon(answered)
        await until(lambda: far.link.stats().received == 2)
        assert lost.relay is not None
        near.link.close("gone")
        with pytest.raises(TargetEndedError):
            await soon(lost)
        assert answered.relay is None
        assert lost.relay is None


# --- what was said before the end -----------------------------------------------------------------------------------------


async def asked(near: End, theirs: socket.socket) -> Any:
    """An ask that the other side has read."""
    reply = (await near.handle()).wait(7)
    await until(lambda: near.link.stats().sent == 1)
    await everything(theirs, 1)
    return reply


LAST_WORDS = frame(ANSWERS, encode((1, 0, 42))) + frame(BYE, encode(("stopped in good order", True, False)))


@pytest.mark.guarantee("G144")
async def test_an_answer_that_has_come_counts_although_a_write_fails_before_it_is_read() -> None:
    async with deaf(Role()) as (near, theirs, scribe):
        reply = await asked(near, theirs)
        theirs.sendall(LAST_WORDS)
        theirs.close()
        # All in one turn of ours: what is sent now is written before that is read.
        scribe.note("nobody reads this")
        assert near.proxy_loop.kernel.tick_inline()
        near.link.transport.flush()  # the turn that writes before it reads
        assert await soon(reply) == 42
        await until(lambda: bool(near.downs))
        assert near.downs == ["stopped in good order"]
        assert near.link.stats().in_doubt == 0


@pytest.mark.guarantee("G144")
async def test_an_answer_that_has_come_counts_although_somebody_says_that_the_process_is_gone() -> None:
    async with deaf(Role()) as (near, theirs, _scribe):
        reply = await asked(near, theirs)
        theirs.sendall(LAST_WORDS)
        near.link.close_after_peer("killed by SIGKILL")
        assert await soon(reply) == 42
        assert near.link.stats().in_doubt == 0
        assert len(near.downs) == 1


# --- whose fault it was ---------------------------------------------------------------------------------------------------


def noting(faults: list[tuple[str, bool]]) -> Callable[[str, bool], None]:
    """Writes faults down."""
    return lambda reason, is_ours: faults.append((reason, is_ours))


@pytest.mark.guarantee("G287")
@pytest.mark.parametrize("what", ["reading", "writing"])
async def test_whatever_is_raised_in_a_link_is_the_fault_of_that_side(
    monkeypatch: pytest.MonkeyPatch, what: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Also the other side knows why, and that it is not to blame."""

    def refuse(*_arguments: object, **_named: object) -> Any:
        raise MemoryError

    near_faults: list[tuple[str, bool]] = []
    far_faults: list[tuple[str, bool]] = []
    ours, theirs = socket.socketpair()
    async with make_end() as near, make_end(lambda loop: {"scribe": loop.spawn(Scribe)}) as far:
        near.open(ours, "near", "far", {"scribe": Role()}, on_fault=noting(near_faults))
        far.open(theirs, "far", "near", {}, on_fault=noting(far_faults))
        scribe = await near.handle()
        if what == "reading":
            monkeypatch.setattr("bandstand.pod.link.large_buffers.IncomingBuffer.__init__", refuse)
            culprits, others = far_faults, near_faults
        else:
            monkeypatch.setattr("bandstand.pod.link.large_buffers.OutgoingBuffer.take_chunk", refuse)
            culprits, others = near_faults, far_faults
        scribe.note(bytes(1_000_000))
        await until(lambda: near.downs and far.downs)
        [(reason, is_ours)] = culprits
        assert is_ours
        assert "MemoryError" in reason
        assert others == [(reason, False)]
    assert "a link is lost" in caplog.text


@pytest.mark.guarantee("G287")
async def test_an_end_without_a_word_is_the_fault_of_the_other_side() -> None:
    faults: list[tuple[str, bool]] = []
    ours, theirs = socket.socketpair()
    async with make_end() as near:
        near.open(ours, "near", "far", {}, on_fault=noting(faults))
        theirs.close()
        await until(lambda: near.downs)
    assert faults in (
        [("the other side has closed it", False)],
        [("reading from it failed: Connection reset by peer", False)],
    )


@pytest.mark.guarantee("G287")
async def test_a_descriptor_that_is_not_its_own_any_more_is_noticed_when_it_is_written_to() -> None:
    faults: list[tuple[str, bool]] = []
    async with scribe_link() as (near, far, scribe):
        near.link._on_fault = noting(faults)  # pyright: ignore[reportPrivateUsage]
        fd = near.link.transport.fd
        reader, writer = os.pipe()
        kept = os.dup(fd)
        # Another descriptor is under its number, as after one was closed twice.
        os.dup2(writer, fd)
        scribe.note(1)
        await until(lambda: near.downs)
        assert faults == [("writing to it failed: Socket operation on non-socket", True)]
        for each in (reader, writer, kept):
            os.close(each)
        await until(lambda: far.downs)


@pytest.mark.guarantee("G287")
async def test_a_ping_is_answered_over_the_link() -> None:
    async with linked() as (near, far):
        await near.handle()
        answered: list[str] = []
        near.link.ping(lambda: answered.append("far"))
        far.link.ping(lambda: answered.append("near"))
        await until(lambda: len(answered) == 2)
        near.link.ping(lambda: answered.append("never"))
        near.link.close("gone")
        assert "never" not in answered


# --- how large frames become ----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G288")
@pytest.mark.parametrize(
    "value",
    [
        7,
        -(1 << 63),
        (1 << 64) - 1,
        1.5,
        None,
        True,
        "",
        "text" * 256,
        "\u00e9" * 1024,
        "\U0001f3ba" * 1024,
        b"\xff" * 1024,
        (),
        ("\U0001f3ba" * 1024, b"x" * 1024, 1, None) * 4,
    ],
)
def test_a_plain_value_is_weighed_by_what_is_written(value: Any) -> None:
    assert is_plain(value)
    size = len(encode(value))
    assert size <= plain_size(value) <= 4 * size + 160


@pytest.mark.guarantee("G288")
@pytest.mark.parametrize("lane", [0, 3])
def test_a_frame_is_closed_before_it_is_too_large(lane: int) -> None:
    queue = WriteQueue()
    value = ("\U0001f3ba" * 1024,) * 16
    for _ in range(1000):
        queue.append_message(lane, 1, value)
    sizes: list[int] = []
    while queue.take():
        data = b"".join(queue.buffers)
        queue.buffers.clear()
        while data:
            size, _kind = HEADER.unpack_from(data)
            sizes.append(size)
            data = data[HEADER.size + size :]
    assert sum(sizes) > 1000 * len(encode(value))
    assert max(sizes) < 262_144 < MAX_FRAME
