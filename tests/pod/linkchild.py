"""The other end of a link, in a process of its own: `python -m tests.pod.linkchild <socket> <diary>`.

Its clerk writes a byte into the diary for each message that it has handled: what was written before it was killed, was handled.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any

from bandstand.actor import Actor, ActorSystem, ask, tell
from bandstand.core import Lane
from bandstand.core.asyncio_host import new_event_loop
from tests.pod.linking import make_end


def open_descriptors() -> int:
    """How many file descriptors this process has open."""
    return len(os.listdir("/dev/fd"))


class Clerk(Actor):
    """Leaves a trace of everything, in the file whose descriptor it was given."""

    def __init__(self, diary: int = -1) -> None:
        self._diary = diary

    @tell
    def trace(self, what: object) -> None:
        os.write(self._diary, b".")

    @tell(lane=Lane.CONTROL)
    def die(self) -> None:
        os._exit(3)

    @ask
    def process(self) -> int:
        return os.getpid()

    @ask
    def size_of(self, what: bytes) -> int:
        return len(what)

    @ask
    def descriptors(self) -> int:
        return open_descriptors()

    @ask
    async def never(self) -> None:
        await asyncio.Event().wait()


def main(sock: socket.socket, diary: int) -> None:
    """Be the other end until the link is down."""

    def spawn(loop: ActorSystem) -> dict[str, Any]:
        return {"clerk": loop.spawn(Clerk, diary)}

    async def serve() -> None:
        async with make_end(spawn) as end:
            over = asyncio.Event()

            def told(reason: str) -> None:
                end.downs.append(reason)
                over.set()

            end.open(sock, "far", "near", {}, on_down=told)
            await over.wait()

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(serve())


if __name__ == "__main__":
    main(socket.socket(fileno=int(sys.argv[1])), int(sys.argv[2]))
