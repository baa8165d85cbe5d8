"""A session: the actor of one connection.

The session reads in the background and sends itself each line as soon as there is room for it. So it does not read
from a client that types faster than the room handles its lines, and TCP makes the client wait. Lines of the room come
from the room's topic, which keeps some for a slow client. The client misses the rest, and gets their number. A client
that reads nothing at all is disconnected.
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

# After how many seconds a client that reads nothing is disconnected.
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
        except BaseException:  # `on_stop` is not called if `on_start` fails
            self._writer.close()
            raise
        self.background(self._read(), self._hang_up)

    def on_stop(self, _reason: ExitReason, _cause: BaseException | None) -> None:
        """Close the connection. The subscription ends with the actor."""
        self._writer.close()

    # -- what comes from the client ------------------------------------------------------------------------------------------

    async def _read(self) -> None:
        """Read lines in the background, until the client has disconnected."""
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
                # This is the end of the long line.
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
            # The room is being restarted, and keeps its guests. If its supervisor gave up, open the room again.
            with suppress(BandstandError):
                self._house.room(self._room_name)
            await self._write("* please try again")

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
        """Write a line of the room. While this waits for the client, further lines wait in the queue of the subscription."""
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
