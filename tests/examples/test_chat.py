"""The chat server as an example: a thousand real connections, one that does not read, one that types too fast, a room that breaks."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Self

import pytest

from bandstand import ActorSystem
from examples.chat import session
from examples.chat.server import open_house

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.real_time(reason="real connections"),
    pytest.mark.spec("J23"),
    pytest.mark.timeout(60),
]


class Client:
    """Somebody at the other end."""

    def __init__(self, reader: StreamReader, writer: StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def leave(self) -> None:
        self.writer.transport.abort()
        with suppress(ConnectionError):
            await self.writer.wait_closed()

    def type(self, text: str) -> None:
        self.writer.write(f"{text}\n".encode())

    async def line(self) -> str:
        async with asyncio.timeout(20):
            return (await self.reader.readline()).decode().rstrip("\n")

    async def until(self, words: str) -> list[str]:
        """Lines, up to the one that has these words."""
        lines: list[str] = []
        while words not in (lines[-1] if lines else ""):
            text = await self.line()
            assert text, f"the connection has ended before {words!r} came: {lines}"
            lines.append(text)
        return lines


class Street:
    """Where clients come from, and go in the end."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: list[Client] = []

    async def come(self, **options: int) -> Client:
        client = Client(*await asyncio.open_connection("127.0.0.1", self._port, **options))
        self._clients.append(client)
        return client

    async def connect(self, name: str, **options: int) -> Client:
        client = await self.come(**options)
        client.type(f"/nick {name}")
        await client.until(f"you are in lobby, as {name}")
        return client

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for client in self._clients:
            await client.leave()


@asynccontextmanager
async def visited(*, escalations: int = 0) -> AsyncGenerator[tuple[ActorSystem, Street]]:
    """A real server, and the street to it."""
    async with ActorSystem() as loop:
        async with open_house(loop) as (_house, port), Street(port) as street:
            yield loop, street
        assert loop.events.counts().escalations == escalations


@pytest.mark.slow
@pytest.mark.once
async def test_a_thousand_connections_hear_everything_in_order() -> None:
    async with visited() as (loop, street):
        clients = [
            client
            for start in range(0, 1000, 100)
            for client in await asyncio.gather(
                *(street.connect(f"c{number}") for number in range(start, start + 100))
            )
        ]
        sessions = loop.tree().find("sessions")
        assert sessions is not None
        assert len(sessions.children) == 1000
        for number in range(5):
            clients[number * 200].type(f"line {number}")
            heard = await asyncio.gather(*(client.until(f"line {number}") for client in clients))
            assert {lines[-1] for lines in heard} == {f"[lobby] c{number * 200}: line {number}"}


@pytest.mark.slow
async def test_who_does_not_read_misses_lines_is_told_and_hurts_nobody() -> None:
    async with visited() as (_, street):
        sleeper = await street.connect("sleeper", limit=2048)
        talker = await street.connect("talker")
        words = "x" * 900
        # More than all buffers of the machine between them hold.
        for number in range(8000):
            talker.type(f"{number} {words}")
            if number % 10 == 0:
                await talker.until(f"talker: {number} ")
        await talker.until("talker: 7999 ")
        seen = await sleeper.until("talker: 7999 ")
        missed = [
            int(match[1]) for line in seen if (match := re.fullmatch(r"\* you missed (\d+) lines", line))
        ]
        numbers = [int(match[1]) for line in seen if (match := re.search(r"talker: (\d+) ", line))]
        assert missed
        assert numbers == sorted(numbers)
        # The rest of what was missed is told after the last line that came through.
        while len(numbers) + sum(missed) < 8000:
            match = re.fullmatch(r"\* you missed (\d+) lines", await sleeper.line())
            assert match is not None
            missed.append(int(match[1]))
        assert len(numbers) + sum(missed) == 8000
        assert len(numbers) < 8000


@pytest.mark.slow
async def test_who_takes_nothing_at_all_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "PATIENCE_S", 0.2)

    async with visited() as (_, street):
        await street.connect("stone", limit=2048)
        talker = await street.connect("talker")
        while True:
            talker.type("x" * 900)
            talker.type("/who")
            names = (await talker.until("* here: "))[-1]
            if "stone" not in names:
                break
        assert names == "* here: talker"


async def test_a_room_that_breaks_is_back_with_everybody_in_it() -> None:
    async with visited() as (loop, street):
        ada = await street.connect("ada")
        bob = await street.connect("bob")
        ada.type("(the word that breaks it)")
        ada.type("still here?")
        await bob.until("ada: still here?")
        bob.type("/who")
        assert (await bob.until("* here: "))[-1] == "* here: ada, bob"
        assert loop.events.counts().restarts == 1


async def test_rooms_do_not_hear_each_other_and_show_who_comes_what_was_said() -> None:
    async with visited() as (_, street):
        ada = await street.connect("ada")
        bob = await street.connect("bob")
        ada.type("/join tea")
        await ada.until("you are in tea")
        ada.type("earl grey")
        await ada.until("earl grey")
        bob.type("only here")
        assert (await bob.until("only here"))[-1] == "[lobby] bob: only here"
        bob.type("/join tea")
        assert await bob.until("you are in tea") == ["[tea] ada: earl grey", "* you are in tea, as bob"]
        ada.type("/quit")
        await ada.until("* bye")
        assert await ada.line() == ""
        bob.type("/who")
        assert (await bob.until("* here: "))[-1] == "* here: bob"


async def test_rooms_that_were_given_up_are_opened_again_by_whoever_speaks() -> None:
    async with visited(escalations=1) as (loop, street):
        ada = await street.connect("ada")
        bob = await street.connect("bob")
        while loop.events.counts().escalations == 0:
            ada.type("(the word that breaks it)")
            ada.type("/who")
            await ada.until("* ")
        # Repeat until the rooms are open again.
        heard = ""
        while "try again" in heard or not heard:
            ada.type("/who")
            heard = (await ada.until("* "))[-1]
        assert heard == "* here: ada, bob"
        ada.type("still here?")
        await bob.until("ada: still here?")


@pytest.mark.slow
@pytest.mark.once
def test_it_runs_as_it_says_and_ends_at_a_signal() -> None:
    command = [sys.executable, "-W", "error", "-m", "examples.chat", "--port", "0"]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            first = server.stdout.readline()
            match = re.match(r"listening on 127\.0\.0\.1 port (\d+)", first)
            assert match is not None

            async def talk() -> None:
                async with Street(int(match[1])) as street:
                    client = await street.connect("ada")
                    client.type("hello")
                    await client.until("ada: hello")
                    os.kill(server.pid, signal.SIGTERM)
                    assert await client.line() == ""

            asyncio.run(talk())
            out, err = server.communicate(timeout=20)
        finally:
            server.kill()
    assert (server.returncode, err) == (0, "")
    assert "session-1: Session (running" in out
