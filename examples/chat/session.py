"""A session: the actor of one connection.

It reads in the background and sends itself what was typed, as soon as there is room for it: somebody who types faster than the room takes it
is simply not read from, until TCP tells his machine to wait. What is said in the room comes by the room's topic, which keeps some lines for
him while he is slow; what does not fit he misses, and is told how much. So one who does not read costs so many lines and nothing else, and
one who does not read at all is hung up on.
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from contextlib import suppress
from typing import TYPE_CHECKING

from bandstand import Actor, tell
from bandstand.core import ExitReason, Lagged
from bandstand.errors import BandstandError
from examples.chat.lines import HELP, LONGEST, Join, Line, Mistake, Quit, Rename, Say, Who, parse

if TYPE_CHECKING:
    from examples.chat.room import Room
    from examples.chat.server import House

# How long somebody may take nothing of what he is sent.
PATIENCE_S = 30.0


class Session(Actor):
    def __init__(self, house: House, reader: StreamReader, writer: StreamWriter, name: str) -> None:
        self._house = house
        self._reader = reader
        self._writer = writer
        self._name = name
        self._room: Room | None = None
        self._room_name = ""

    async def on_start(self) -> None:
        try:
            await self._enter("lobby")
            await self._write(f"* hello {self._name}: {HELP}")
        except BandstandError as error:
            self._writer.write(f"* not now: {error}\n".encode())
            self.stop()
            return
        except BaseException:  # whatever it was: there is no `on_stop` for who has not started
            self._writer.close()
            raise
        self.background(self._read(), self._hang_up)

    def on_stop(self, _reason: ExitReason, _cause: BaseException | None) -> None:
        """However it ends, the connection does, too. Its subscription ends by itself."""
        self._writer.close()

    # -- what comes from the client ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Runs beside the messages. When it ends the client has gone."""
        is_skipping = False
        while True:
            try:
                text = await self._reader.readuntil(b"\n")
            except asyncio.LimitOverrunError as error:
                await self._reader.read(error.consumed)
                if not is_skipping:
                    self.me.advise.try_send(f"* a line has {LONGEST} bytes at most; that one was skipped")
                is_skipping = True
                continue
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            if is_skipping:
                # That was its end.
                is_skipping = False
                continue
            await self.me.typed.when_room(text.decode("utf-8", "replace").strip())

    def _hang_up(self, _nothing: None) -> None:
        self.stop()

    @tell
    async def typed(self, text: str) -> None:
        try:
            await self._fulfil(text)
        except BandstandError:
            # The room is just being started again; who was in it still is. If all rooms were given up, somebody has to open it.
            with suppress(BandstandError):
                self._house.room(self._room_name)
            await self._write("* one moment, please, and then once more")

    async def _fulfil(self, text: str) -> None:
        match parse(text):
            case Say(words) if words and self._room is not None:
                await self._room.say.when_room(Line(self._room_name, self._name, words))
            case Join(room):
                await self._enter(room)
            case Rename(name):
                self._name = name
                await self._enter(self._room_name)
            case Who() if self._room is not None:
                await self._write(f"* here: {', '.join(await self._room.who())}")
            case Quit():
                await self._write("* bye")
                self.stop()
            case Mistake(advice):
                await self._write(f"* {advice}")
            case _:
                pass

    async def _enter(self, name: str) -> None:
        room = self._house.room(name)
        history = await room.join(self.me, self._name)
        if self._room is not None and self._room_name != name:
            self._room.leave.try_send(self.me)
        self._room, self._room_name = room, name
        for line in history:
            await self._write(str(line))
        await self._write(f"* you are in {name}, as {self._name}")

    # -- what goes to the client ---------------------------------------------------------------------------------------------

    @tell
    async def hear(self, line: Line) -> None:
        """Something was said. While this waits for the client, what follows waits in the room that the topic keeps for us."""
        await self._write(str(line))

    @tell
    async def fall_behind(self, lagged: Lagged) -> None:
        await self._write(f"* you missed {lagged.missed} lines")

    @tell
    async def advise(self, advice: str) -> None:
        await self._write(advice)

    async def _write(self, text: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                self._writer.write(f"{text}\n".encode())
                await self._writer.drain()
        except (TimeoutError, ConnectionError):
            self._writer.transport.abort()
            self.stop()
