"""The server: what listens, and what starts rooms and sessions.

chat
  rooms      started when somebody first wants one; started again when one fails
  sessions   one for each connection; one that fails is not started again, because its connection is gone
"""

from __future__ import annotations

import asyncio
from asyncio import StreamReader, StreamWriter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from itertools import count

from bandstand import ActorSystem, child
from bandstand.errors import BandstandError, ChildStateError, MaxChildrenError
from bandstand.supervision import (
    ChildSpec,
    DynamicSpec,
    DynamicSupervisor,
    RestartPolicy,
    Supervisor,
    SupervisorSpec,
    spawn_supervisor,
)
from bandstand.topic import Topic
from examples.chat.lines import LONGEST, Line
from examples.chat.room import Guests, Room
from examples.chat.session import Session

MOST_SESSIONS = 10_000
MOST_ROOMS = 1_000
# Bytes that wait for a client before the session does.
WRITE_BYTES = 16 * 1024


class House:
    """The rooms and the sessions of one server, and what must not be lost when a room is: who is in it."""

    def __init__(self, system: ActorSystem) -> None:
        self._loop = system
        self._guests: dict[str, Guests] = {}
        self._numbers = count(1)
        session = child("session", restart=RestartPolicy.NEVER, mailbox=28).each_of(Session, self)
        self._root = spawn_supervisor(
            system,
            SupervisorSpec(
                children=[
                    ChildSpec("rooms", SupervisorSpec(max_restarts=20)),
                    ChildSpec("sessions", DynamicSpec(child=session, max_children=MOST_SESSIONS)),
                ]
            ),
            name="chat",
        )

    def room(self, name: str) -> Room:
        """A handle of a room, which is opened if it is not there. It stays good when the room is started again.

        Raises:
            BandstandError: there are too many rooms, or just now none can be opened.
        """
        rooms = self._root.supervisor("rooms", Supervisor)
        if rooms is None:
            raise ChildStateError("the rooms are just being started again")
        if name not in self._guests:
            if len(self._guests) >= MOST_ROOMS:
                raise MaxChildrenError(f"there are {MOST_ROOMS} rooms already")
            self._guests[name] = Guests(Topic(self._loop, Line, name=name))
        if all(known.name != name for known in rooms.children()):
            rooms.start_child(child(name, keep_mailbox=True).of(Room, self._guests[name]))
        return self._root.handle(Room, "rooms", name)

    async def welcome(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Somebody has connected."""
        writer.transport.set_write_buffer_limits(high=WRITE_BYTES)
        try:
            sessions = self._root.supervisor("sessions", DynamicSupervisor[Session])
            if sessions is None:
                raise ChildStateError("the server is just being started again")
            sessions.start_child(reader, writer, f"guest{next(self._numbers)}")
        except BandstandError as error:
            writer.write(f"* not now: {error}\n".encode())
            writer.close()


@asynccontextmanager
async def open_house(
    system: ActorSystem, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[tuple[House, int]]:
    """A server that listens; the port it has."""
    house = House(system)
    server = await asyncio.start_server(house.welcome, host, port, limit=LONGEST, backlog=1024)
    try:
        yield house, server.sockets[0].getsockname()[1]
    finally:
        server.close()
