"""Descriptors that belong to somebody else: files, pipes, terminals, and whatever else standard input and output may be."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import pty
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus.adapters.limits import Limits
from bandstand.bus.adapters.stdio import DescriptorTransport, PipeAdapter
from bandstand.errors import InvalidArgumentError, ListenError
from tests.bus.adapters import PATIENCE, Desk, Watched, request

pytestmark = [pytest.mark.spec("C17", "C4"), pytest.mark.usefixtures("lane_loop")]


async def ended(adapter: PipeAdapter) -> None:
    """Wait until the input has ended and all of it was handed in."""
    async with asyncio.timeout(PATIENCE):
        while adapter.can_produce:  # noqa: ASYNC110  # it is a property of an adapter, and no event
            await asyncio.sleep(0)


@pytest.fixture
def descriptors() -> Iterator[Callable[..., int]]:
    """Keeps descriptors, and closes those that are still open at the end."""
    kept: list[int] = []

    def keep(descriptor: int) -> int:
        kept.append(descriptor)
        return descriptor

    yield keep
    for descriptor in kept:
        with suppress(OSError):
            os.close(descriptor)


def answers(text: bytes) -> list[str]:
    return [json.loads(line)["metadata"]["causation"] for line in text.splitlines()]


def taken(descriptor: int) -> bytes:
    """What is there now."""
    with suppress(BlockingIOError):
        return os.read(descriptor, 1 << 16)
    return b""


class TestFiles:
    @pytest.mark.parametrize("window", [1, 3, 512])
    async def test_a_file_is_read_to_its_end_and_answered_into_another(
        self, tmp_path: Path, descriptors: Callable[..., int], window: int
    ) -> None:
        lines = [request(number, data="x" * 1000) for number in range(600)]
        (tmp_path / "in").write_bytes(b"".join(lines).rstrip())
        reader = descriptors(os.open(tmp_path / "in", os.O_RDONLY))
        writer = descriptors(os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT))
        adapter, desk = PipeAdapter(reader, writer, limits=Limits(window=window)), Watched()
        await adapter.start(desk)
        await ended(adapter)
        # It stays for what is still to be said.
        assert desk.lines
        await adapter.close(PATIENCE)
        assert answers((tmp_path / "out").read_bytes()) == [f"q{number}" for number in range(600)]

    async def test_nothing_and_what_cannot_be_read_are_an_end(
        self, tmp_path: Path, descriptors: Callable[..., int], caplog: pytest.LogCaptureFixture
    ) -> None:
        null = descriptors(os.open("/dev/null", os.O_RDWR))
        for reader, said in ((null, ""), (descriptors(os.open(tmp_path, os.O_RDONLY)), "reading failed")):
            adapter = PipeAdapter(reader, null)
            await adapter.start(Watched())
            await ended(adapter)
            assert adapter.is_flushed
            await adapter.close(PATIENCE)
            assert said in caplog.text

    async def test_a_file_is_read_as_answered(self, tmp_path: Path, descriptors: Callable[..., int]) -> None:
        (tmp_path / "in").write_bytes(request(1, data="x" * 10_000) * 300)
        reader = descriptors(os.open(tmp_path / "in", os.O_RDONLY))
        writer = descriptors(os.open("/dev/null", os.O_WRONLY))
        adapter, desk = PipeAdapter(reader, writer, limits=Limits(window=4)), Watched()
        desk.is_holding = True
        await adapter.start(desk)
        await desk.until(lambda: len(desk.admitted) == 4)
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(desk.admitted) == 4
        # One chunk, and at most one more that was under way.
        assert os.lseek(reader, 0, os.SEEK_CUR) <= 2 * 256 * 1024
        desk.is_holding = False
        desk.release()
        await ended(adapter)
        assert len(desk.admitted) == 300
        await adapter.close(PATIENCE)

    async def test_reading_a_file_can_end(self, tmp_path: Path, descriptors: Callable[..., int]) -> None:
        (tmp_path / "in").write_bytes(request(1) * 50_000)
        reader = descriptors(os.open(tmp_path / "in", os.O_RDONLY))
        writer = descriptors(os.open("/dev/null", os.O_WRONLY))
        adapter, desk = PipeAdapter(reader, writer), Watched()
        await adapter.start(desk)
        await desk.until(lambda: desk.admitted)
        await adapter.close(0)
        assert len(desk.admitted) < 50_000


class TestPipes:
    async def test_whoever_closes_the_output_early_ends_it(self, descriptors: Callable[..., int]) -> None:
        reader, their_writer = map(descriptors, os.pipe())
        their_reader, writer = map(descriptors, os.pipe())
        adapter, desk = PipeAdapter(reader, writer), Watched()
        await adapter.start(desk)
        os.close(their_reader)
        os.write(their_writer, request(1))
        await desk.until(lambda: desk.closed)
        assert not adapter.can_produce
        assert adapter.is_flushed
        await adapter.close(PATIENCE)

    async def test_they_are_neither_closed_nor_changed(self, descriptors: Callable[..., int]) -> None:
        reader, _ = map(descriptors, os.pipe())
        _, writer = map(descriptors, os.pipe())
        adapter = PipeAdapter(reader, writer)
        await adapter.start(Watched())
        assert os.get_blocking(reader)
        assert os.get_blocking(writer)
        await adapter.close(PATIENCE)
        assert os.get_blocking(reader)
        assert os.get_blocking(writer)

    async def test_a_full_pipe_does_not_block_the_node(self, descriptors: Callable[..., int]) -> None:
        reader, their_writer = map(descriptors, os.pipe())
        their_reader, writer = map(descriptors, os.pipe())
        adapter, desk = PipeAdapter(reader, writer, limits=Limits(write_high=100_000)), Watched()
        await adapter.start(desk)
        os.write(their_writer, request(1))
        await desk.until(lambda: desk.admitted)
        (line,) = desk.lines
        count = 0
        while line.is_writable:
            count += 1
            line.deliver(desk.admitted[0], settles=False)
            await asyncio.sleep(0)
        read = b""
        os.set_blocking(their_reader, False)
        while not adapter.is_flushed:
            read += taken(their_reader)
            await asyncio.sleep(0)
        os.set_blocking(their_reader, True)
        assert desk.drained_count == 1
        await adapter.close(PATIENCE)
        os.close(writer)
        while chunk := os.read(their_reader, 1 << 16):
            read += chunk
        assert read.count(b"\n") == count + 1

    async def test_a_file_that_is_full_is_told(
        self, descriptors: Callable[..., int], caplog: pytest.LogCaptureFixture
    ) -> None:
        reader, their_writer = map(descriptors, os.pipe())
        writer = descriptors(os.open("/dev/full", os.O_WRONLY))
        adapter, desk = PipeAdapter(reader, writer), Watched()
        await adapter.start(desk)
        os.write(their_writer, request(1))
        await desk.until(lambda: desk.closed)
        await adapter.close(PATIENCE)
        assert "writing failed" in caplog.text


class TestTerminals:
    async def test_a_terminal_can_be_talked_to(self, descriptors: Callable[..., int]) -> None:
        ours, theirs = map(descriptors, pty.openpty())
        tty.setraw(theirs)
        os.set_blocking(ours, False)
        adapter, desk = PipeAdapter(theirs, theirs), Watched()
        await adapter.start(desk)
        os.write(ours, request(1) + request(2))
        await desk.until(lambda: len(desk.admitted) == 2)
        read = b""
        while read.count(b"\n") < 2:
            await asyncio.sleep(0)
            read += taken(ours)
        assert answers(read) == ["q1", "q2"]
        # Hung up.
        os.close(ours)
        await ended(adapter)
        await adapter.close(PATIENCE)


def refuse(transport: DescriptorTransport) -> None:
    raise OSError(errno.EINVAL, "Invalid argument")


class TestArguments:
    def test_its_name(self) -> None:
        assert PipeAdapter().name == "stdio"
        assert PipeAdapter(5, 7).name == "pipe:5,7"

    @pytest.mark.parametrize(
        ("arguments", "said"),
        [
            ({"reader": -1}, "reader is -1"),
            ({"writer": None}, "writer is None"),
            ({"limits": 5}, "limits is 5"),
        ],
    )
    def test_what_has_no_sense_is_refused(self, arguments: dict[str, Any], said: str) -> None:
        with pytest.raises(InvalidArgumentError, match=said):
            PipeAdapter(**arguments)

    async def test_what_is_not_open_is_refused(self) -> None:
        for reader, writer in ((9999, 2), (2, 9999)):
            adapter = PipeAdapter(reader, writer)
            with pytest.raises(ListenError, match="descriptor 9999 is not open"):
                await adapter.start(Desk())
            assert not adapter.can_produce

    async def test_what_cannot_be_waited_for_is_refused(self, descriptors: Callable[..., int]) -> None:
        null = descriptors(os.open("/dev/null", os.O_RDWR))
        adapter, desk = PipeAdapter(null, null), Desk()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(DescriptorTransport, "resume_reading", refuse)
            with pytest.raises(ListenError, match="cannot be watched"):
                await adapter.start(desk)
        assert not adapter.can_produce
        assert desk.lines == []
