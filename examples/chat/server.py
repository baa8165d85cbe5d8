"""The server: listens, and starts rooms and sessions.

chat
  rooms      a room starts when a client first joins it, and restarts when it fails
  sessions   one for each connection; a failed one is not restarted, because its connection is gone
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
# How many unsent bytes a client may have before its session waits.
WRITE_BYTES = 16 * 1024


class House:
    """The rooms and the sessions of one server. It also keeps the guests of each room, which must survive its restarts."""

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
        """Return the handle of a room, and open the room if there is none. The handle stays valid over restarts.

        Raises:
            BandstandError: there are too many rooms, or the supervisor is restarting.
        """
        rooms = self._root.supervisor("rooms", Supervisor)
        if rooms is None:
            raise ChildStateError("the rooms are being restarted")
        if name not in self._guests:
            if len(self._guests) >= MOST_ROOMS:
                raise MaxChildrenError(f"there are {MOST_ROOMS} rooms already")
            self._guests[name] = Guests(Topic(self._loop, Line, name=name))
        if all(known.name != name for known in rooms.children()):
            rooms.start_child(child(name, keep_mailbox=True).of(Room, self._guests[name]))
        return self._root.handle(Room, "rooms", name)

    async def welcome(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Start a session for a new connection."""
        writer.transport.set_write_buffer_limits(high=WRITE_BYTES)
        try:
            sessions = self._root.supervisor("sessions", DynamicSupervisor[Session])
            if sessions is None:
                raise ChildStateError("the server is being restarted")
            sessions.start_child(reader, writer, f"guest{next(self._numbers)}")
        except BandstandError as error:
            writer.write(f"* not now: {error}\n".encode())
            writer.close()


@asynccontextmanager
async def open_house(
    system: ActorSystem, host: str = "127.0.0.1", port: int = 0
) -> AsyncGenerator[tuple[House, int]]:
    """Run a server, and yield its rooms and its port."""
    house = House(system)
    server = await asyncio.start_server(house.welcome, host, port, limit=LONGEST, backlog=1024)
    try:
        yield house, server.sockets[0].getsockname()[1]
    finally:
        server.close()
