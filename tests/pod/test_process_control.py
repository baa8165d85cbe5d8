"""The control channel: words and descriptors between two ends, in order, in whatever pieces they come; and its end."""

from __future__ import annotations

import asyncio
import errno
import os
import pickle
import socket
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bandstand.errors import BadMessage, InvalidArgument
from bandstand.pod.process.control import BACKLOG, Control
from bandstand.pod.process.letters import LETTER_FDS, NOTICE, WORD, Inbox, Letter, frame_head
from tests.pod.errands import Unreadable, runner_of

pytestmark = [pytest.mark.spec("S19"), pytest.mark.usefixtures("bandstand_leak_check")]

# However busy the machine is, in seconds.
SOON = 20

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    return runner_of(loop_factory)


class Pair:
    """Two ends in one process, and what their machinery hears."""

    def __init__(self) -> None:
        self.notices: list[object] = []
        self.ends: list[str] = []
        here, there = socket.socketpair()
        self.here = Control(here, "process 'painter'", on_notice=self.notices.append, on_end=self.ends.append)
        self.there = Control(there, "the parent")


async def turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@asynccontextmanager
async def paired() -> AsyncGenerator[Pair]:
    pair = Pair()
    try:
        yield pair
    finally:
        pair.here.close()
        pair.there.close()
        # Sockets are closed a turn later.
        await turns()


@asynccontextmanager
async def half() -> AsyncGenerator[tuple[Control, socket.socket]]:
    """An end, and a bare socket for the other."""
    ours, theirs = socket.socketpair()
    control = Control(ours, "process 'painter'")
    try:
        with theirs:
            yield control, theirs
    finally:
        control.close()
        await asyncio.sleep(0)


def written(word: object, kind: int = WORD, fds: int = 0) -> bytes:
    body = pickle.dumps(word, 5)
    return frame_head(len(body), kind, fds) + body


# -- words -------------------------------------------------------------------------------------------------------------


def test_words_come_in_order_both_ways(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            words: list[object] = ["one", 2, {"three": [3.0]}, None, b"x" * 100_000]
            for word in words:
                assert pair.here.send(word)
                assert pair.there.send((word, word))
            assert [(await pair.there.receive()).word for _ in words] == words
            assert [(await pair.here.receive()).word for _ in words] == [(word, word) for word in words]

    run(body())


def test_whoever_waits_is_woken(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            waiting = asyncio.create_task(pair.there.receive())
            await turns()
            assert not waiting.done()
            pair.here.send("now")
            assert await waiting == Letter("now", ())

    run(body())


def test_only_one_waits(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            waiting = asyncio.create_task(pair.there.receive())
            await turns()
            with pytest.raises(
                InvalidArgument, match=r"^somebody receives from the parent already: one at a time$"
            ):
                await pair.there.receive()
            pair.here.send("now")
            assert (await waiting).word == "now"

    run(body())


def test_a_wait_that_is_cancelled_takes_nothing(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            waiting = asyncio.create_task(pair.there.receive())
            await turns()
            pair.here.send("kept")
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert (await pair.there.receive()).word == "kept"

    run(body())


def test_what_is_sent_in_one_turn_goes_out_in_one_piece(run: Run) -> None:
    async def body() -> None:
        async with half() as (control, other):
            for number in range(10):
                control.send(number)
            assert control.unwritten > 0
            other.settimeout(0)
            with pytest.raises(BlockingIOError):
                other.recv(1)
            await control.flush()
            assert control.unwritten == 0
            assert other.recv(100_000) == b"".join(map(written, range(10)))

    run(body())


def test_bytes_may_come_one_by_one(run: Run) -> None:
    async def body() -> None:
        async with half() as (control, other):
            for byte in written("slowly") + written("but surely"):
                other.send(bytes([byte]))
                await asyncio.sleep(0)
            assert [(await control.receive()).word, (await control.receive()).word] == [
                "slowly",
                "but surely",
            ]

    run(body())


def test_large_words_pass_while_nobody_is_blocked(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            large = os.urandom(8 << 20)
            pair.here.send(large)
            pair.here.send("after")
            flushing = asyncio.create_task(pair.here.flush())
            pair.there.send("the other way round")
            assert (await pair.here.receive()).word == "the other way round"
            assert (await pair.there.receive()).word == large
            assert (await pair.there.receive()).word == "after"
            await flushing

    run(body())


def test_what_is_not_received_is_not_read_and_the_sender_waits(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            count = BACKLOG * 40
            for number in range(count):
                pair.here.send((number, b"." * 100))
            flushing = asyncio.create_task(pair.here.flush())
            await turns(1000)
            assert not flushing.done()
            assert pair.here.unwritten > 0
            for number in range(count):
                assert (await pair.there.receive()).word[0] == number
            await flushing

    run(body())


def test_what_cannot_be_pickled_is_refused_at_the_call(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            with pytest.raises(
                TypeError,
                match=r"^list cannot go to process 'painter': .*lambda.*; what goes to another process",
            ):
                pair.here.send([lambda: None])
            pair.here.send("next")
            assert (await pair.there.receive()).word == "next"

    run(body())


def test_what_cannot_be_read_is_an_error_and_the_next_is_not(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            before = len(os.listdir("/proc/self/fd"))
            pair.here.send(Unreadable(), [0])
            pair.here.send("next")
            with pytest.raises(
                BadMessage, match=r"^what came from the parent cannot be read here: RuntimeError: not here$"
            ):
                await pair.there.receive()
            assert (await pair.there.receive()).word == "next"
            assert len(os.listdir("/proc/self/fd")) == before

    run(body())


def test_later_changes_of_a_word_are_not_seen(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            word = [1]
            pair.here.send(word)
            word.append(2)
            assert (await pair.there.receive()).word == [1]

    run(body())


def test_notices_pass_beside_letters(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            pair.there.send("a letter")
            pair.there.notify("a notice")
            pair.here.notify("nobody hears it")
            pair.here.send("a letter")
            assert (await pair.here.receive()).word == "a letter"
            assert (await pair.there.receive()).word == "a letter"
            await turns()
            assert pair.notices == ["a notice"]

    run(body())


# -- descriptors -------------------------------------------------------------------------------------------------------


def test_descriptors_come_with_their_letters(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            pipes = [os.pipe() for _ in range(6)]
            pair.here.send("none")
            pair.here.send("two", [pipes[0][1], pipes[1][1]])
            pair.here.send("one", [pipes[2][1]])
            pair.here.send("none")
            pair.here.send("three", [pipes[at][1] for at in (3, 4, 5)])
            # Copies go: these may be closed at once.
            for _read, write in pipes:
                os.close(write)
            letters = [await pair.there.receive() for _ in range(5)]
            assert [(letter.word, len(letter.fds)) for letter in letters] == [
                ("none", 0),
                ("two", 2),
                ("one", 1),
                ("none", 0),
                ("three", 3),
            ]
            for number, fd in enumerate(fd for letter in letters for fd in letter.fds):
                assert not os.get_inheritable(fd)
                os.write(fd, bytes([number]))
                os.close(fd)
            for number, (read, _write) in enumerate(pipes):
                assert os.read(read, 10) == bytes([number])
                os.close(read)

    run(body())


def test_descriptors_among_much_else(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            for number in range(300):
                pair.here.send((number, b"." * (number * 37 % 5000)), [0] * (number % 4))
            for number in range(300):
                letter = await pair.there.receive()
                assert letter.word[0] == number
                assert len(letter.fds) == number % 4
                for fd in letter.fds:
                    assert os.fstat(fd).st_ino == os.fstat(0).st_ino
                    os.close(fd)

    run(body())


def test_too_many_descriptors_are_refused(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            pair.here.send("all", [0] * LETTER_FDS)
            letter = await pair.there.receive()
            assert len(letter.fds) == LETTER_FDS
            for fd in letter.fds:
                os.close(fd)
            with pytest.raises(
                InvalidArgument, match=r"^17 descriptors to process 'painter': one letter brings at most 16$"
            ):
                pair.here.send("more", [0] * (LETTER_FDS + 1))

    run(body())


def test_a_descriptor_that_is_none_is_refused(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            with pytest.raises(OSError, match="Bad file descriptor") as caught:
                pair.here.send("what", [0, 1_000_000])
            assert caught.value.errno == errno.EBADF
            pair.here.send("next")
            assert (await pair.there.receive()).word == "next"

    run(body())


def test_descriptors_that_nobody_receives_are_closed(run: Run) -> None:
    async def body() -> None:
        before = sorted(os.listdir("/proc/self/fd"))
        async with paired() as pair:
            for _ in range(5):
                pair.here.send("unread", [0, 0])
            await pair.here.flush()
            await turns()
            # And these are not even written.
            pair.here.send("unwritten", [0, 0])
        assert sorted(os.listdir("/proc/self/fd")) == before

    run(body())


def test_descriptors_that_no_letter_claims_are_closed(run: Run) -> None:
    async def body() -> None:
        before = len(os.listdir("/proc/self/fd"))
        async with half() as (control, other):
            socket.send_fds(other, [written("one", fds=0)], [0])
            assert await control.receive() == Letter("one", ())
        assert len(os.listdir("/proc/self/fd")) == before

    run(body())


# -- the end -----------------------------------------------------------------------------------------------------------


def test_what_was_said_before_the_end_is_received(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            pair.there.send("one")
            pair.there.send("two")
            await pair.there.flush()
            pair.there.close()
            assert [letter.word async for letter in pair.here] == ["one", "two"]
            with pytest.raises(EOFError, match=r"^process 'painter': the other end is gone$"):
                await pair.here.receive()
            assert pair.ends == ["the other end is gone"]
            assert not pair.here.is_open

    run(body())


def test_whoever_waits_hears_of_the_end(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            waiting = asyncio.create_task(pair.here.receive())
            await turns()
            pair.there.close()
            with pytest.raises(EOFError):
                await waiting

    run(body())


def test_nothing_is_sent_after_the_end(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            assert pair.here.is_open
            pair.there.close()
            with pytest.raises(EOFError):
                await pair.here.receive()
            assert not pair.here.send("too late", [0])
            await pair.here.flush()

    run(body())


def test_writing_to_whom_does_not_listen_loses_nothing_of_what_he_has_said(run: Run) -> None:
    async def body() -> None:
        async with half() as (control, other):
            other.sendall(written("my last words"))
            other.close()
            control.send("hear me")
            await control.flush()
            assert (await control.receive()).word == "my last words"
            with pytest.raises(EOFError):
                await control.receive()

    run(body())


@pytest.mark.guarantee("G139")
def test_the_end_is_seen_though_the_other_end_has_left_something_unread(run: Run) -> None:
    """Of a socket with an error libuv tells once, and never again."""

    async def body() -> None:
        async with half() as (control, other):
            control.send("never read")
            await control.flush()
            other.sendall(written("my last words"))
            other.close()
            assert (await control.receive()).word == "my last words"
            async with asyncio.timeout(SOON):
                with pytest.raises(EOFError, match="the other end is gone"):
                    await control.receive()

    run(body())


def test_writing_ends_though_nobody_reads_here_either(run: Run) -> None:
    async def body() -> None:
        async with half() as (control, other):
            # So many that it does not read any more, and cannot see that the other end is gone.
            for number in range(BACKLOG + 1):
                other.sendall(written(number))
                await asyncio.sleep(0)
            await turns(5)
            other.close()
            assert control.send("hear me")
            await control.flush()
            assert not control.send("nobody does")
            assert control.is_open
            assert [letter.word async for letter in control] == list(range(BACKLOG + 1))

    run(body())


def test_closing_ends_every_wait(run: Run) -> None:
    async def body() -> None:
        async with paired() as pair:
            pair.here.send(b"x" * (8 << 20))
            flushing = asyncio.create_task(pair.here.flush())
            waiting = asyncio.create_task(pair.here.receive())
            for _ in range(3):
                await asyncio.sleep(0)
            pair.here.close()
            pair.here.close()
            await flushing
            with pytest.raises(EOFError, match="closed"):
                await waiting
            assert pair.ends == []

    run(body())


def test_it_can_be_closed_after_its_event_loop(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:

        async def make() -> Pair:
            pair = Pair()
            pair.here.send("nobody will write this", [0])
            return pair

        pair = runner.run(make())
    pair.here.close()
    pair.there.close()


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"\xff" * 100, r"a frame of kind 255 and 4294967295 bytes: the other end is none of ours"),
        (frame_head(3, 2, 0) + b"abc", r"a frame of kind 2 and 3 bytes: the other end is none of ours"),
        (written("one", fds=2), r"2 descriptors were sent and 0 have come: .*"),
        (frame_head(3, NOTICE, 0) + b"abc", r"what came from process 'painter' cannot be read here: .*"),
    ],
)
def test_what_is_not_ours_ends_it(run: Run, data: bytes, sentence: str) -> None:
    async def body() -> None:
        heard: list[str] = []
        ours, theirs = socket.socketpair()
        control = Control(ours, "process 'painter'", on_notice=heard.append, on_end=heard.append)  # type: ignore[arg-type]  # whatever it is
        with theirs:
            theirs.sendall(written("well") + data)
            assert (await control.receive()).word == "well"
            with pytest.raises(EOFError, match=f"^process 'painter': {sentence}$"):
                await control.receive()
            assert len(heard) == 1
        await asyncio.sleep(0)

    run(body())


def test_finishing_reads_all_that_is_there_and_knows_why(run: Run) -> None:
    async def body() -> None:
        async with half() as (control, other):
            other.settimeout(0)
            count = 0
            while True:
                try:
                    other.send(written("." * 100))
                except BlockingIOError:
                    break
                count += 1
            control.finish("killed by SIGKILL")
            words = 0
            async for letter in control:
                words += letter.word == "." * 100
            assert words == count > 10
            with pytest.raises(EOFError, match=r"^process 'painter': killed by SIGKILL$"):
                await control.receive()

    run(body())


# -- frames ------------------------------------------------------------------------------------------------------------


def test_an_inbox_gives_what_is_whole_before_it_refuses() -> None:
    inbox = Inbox()
    frames = inbox.feed(written("good") + b"\xff" * 100, [])
    assert pickle.loads(next(frames).body) == "good"
    with pytest.raises(BadMessage):
        next(frames)


@pytest.mark.guarantee("G287")
@pytest.mark.parametrize("where", ["feed", "recv"])
def test_whatever_is_raised_while_receiving_ends_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_arguments: object) -> Any:
        raise MemoryError

    async def body() -> None:
        ours, theirs = socket.socketpair()
        ends: list[str] = []
        control = Control(ours, "the parent", on_end=ends.append)
        with theirs:
            if where == "feed":
                monkeypatch.setattr("bandstand.pod.process.control.Inbox.feed", refuse)
            else:
                monkeypatch.setattr("bandstand.pod.process.control.socket.recv_fds", refuse)
            theirs.sendall(written("something"))
            with pytest.raises(EOFError, match="could not be taken \\(MemoryError\\)"):
                await control.receive()
            assert len(ends) == 1
        control.close()
        await asyncio.sleep(0)

    run(body())
    assert "MemoryError" in caplog.text


@pytest.mark.guarantee("G287")
def test_a_descriptor_that_is_not_its_own_any_more_ends_it(run: Run) -> None:
    async def body() -> None:
        ours, theirs = socket.socketpair()
        ends: list[str] = []
        control = Control(ours, "the parent", on_end=ends.append)
        with theirs:
            # Another descriptor is under its number, as after one was closed twice.
            reader, writer = os.pipe()
            kept = os.dup(ours.fileno())
            os.dup2(reader, ours.fileno())
            control.send("something")
            await turns()
            assert ends == ["writing to it failed (Socket operation on non-socket)"]
            for fd in (reader, writer, kept):
                os.close(fd)
        control.close()
        await asyncio.sleep(0)

    run(body())


@pytest.mark.guarantee("G288")
def test_a_word_that_is_too_long_is_refused_at_the_call(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.process.control.LONGEST", 1000)

    async def body() -> None:
        async with paired() as pair:
            with pytest.raises(
                InvalidArgument, match=r"a bytes of 10.. bytes to .*: no word may be longer than 1000"
            ):
                pair.here.send(bytes(1000))
            pair.here.send("short")
            assert (await pair.there.receive()).word == "short"

    run(body())
