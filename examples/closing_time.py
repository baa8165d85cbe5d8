"""A small server with a graceful shutdown: after SIGTERM or Ctrl-C, it serves all guests and then ends.

    python examples/closing_time.py                serves until it gets a signal
    python examples/closing_time.py --open-ms 500  closes by itself

Then, from another terminal:  printf 'tea\\n' | nc 127.0.0.1 PORT

A bar has a door (a TCP server), two cooks under a supervisor, and a till. The shutdown has four phases: the door is
closed (INTAKE), all orders are made and paid (DRAIN), the actors end, the youngest first (STOP), and a cook who does
not end is killed (KILL). A second Ctrl-C kills all actors at once.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

from bandstand import Actor, ActorSystem, SupervisorSpec, ask, child, spawn_supervisor, tell
from bandstand.core import ExitReason, RuntimeEvent
from bandstand.shutdown import GracefulShutdown, ShutdownPhase


def say(words: str) -> None:
    print(words, flush=True)


class Till(Actor):
    """Adds up what was paid. Spawned first, so it ends last, after the actors that use it."""

    def __init__(self) -> None:
        self.total = 0

    @tell
    def pay(self, amount: int) -> None:
        self.total += amount

    def on_stop(self, _reason: ExitReason, _cause: BaseException | None, /) -> None:
        say(f"till: {self.total} paid")


class Cook(Actor):
    """Makes one order at a time."""

    def __init__(self, ms: float, till: Till) -> None:
        self.ms = ms
        self.till = till

    @ask
    async def make(self, what: str) -> str:
        if what == "sleep":
            await self.snore()
        await asyncio.sleep(self.ms / 1000)
        self.till.pay(len(what))
        return f"one {what}"

    async def snore(self) -> None:
        """Ignore cancellations for three seconds. (`asyncio.run` waits for every task.)"""
        host = asyncio.get_running_loop()
        until = host.time() + 3
        while (left := until - host.time()) > 0:
            try:
                await asyncio.sleep(left)
            except asyncio.CancelledError:
                say("cook: zzz")


class Bar:
    """The connections, outside of the actors. Each of them asks a cook."""

    def __init__(self, cooks: list[Cook], patience_ms: float) -> None:
        self._cooks = cooks
        self._patience_ms = patience_ms
        self._served = 0
        self._talks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._welcome, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def shut_the_door(self) -> None:
        """Accept no more connections. Those that are open get their answers."""
        if self._server is not None:
            self._server.close()
        say(f"door: shut, {len(self._talks)} guests inside")

    async def see_guests_off(self) -> None:
        if self._talks:
            await asyncio.wait(self._talks)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        talk = asyncio.create_task(self._serve(reader, writer))
        self._talks.add(talk)
        talk.add_done_callback(self._talks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            writer.write(f"{await self._answer(reader)}\n".encode())
            await writer.drain()
        except ConnectionError:
            say("a guest has left")
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader) -> str:
        try:
            # A guest who does not order must not delay the shutdown.
            async with asyncio.timeout(self._patience_ms / 1000):
                order = (await reader.readline()).decode(errors="replace").strip()
            self._served += 1
            say(f"order: {order}")
            return await self._cooks[self._served % len(self._cooks)].make(order)
        except Exception as error:  # noqa: BLE001  # each guest gets an answer
            return f"sorry: {type(error).__name__}"


async def main(options: argparse.Namespace) -> int:
    async with ActorSystem() as loop:
        loop.events.listen(print_event)
        till = loop.spawn(Till)
        names = ("ann", "bob")
        specs = [child(name).of(Cook, options.cook_ms, till) for name in names]
        kitchen = spawn_supervisor(loop, SupervisorSpec(children=specs), name="kitchen")
        bar = Bar([kitchen.handle(Cook, name) for name in names], options.patience_ms)

        shutdown = GracefulShutdown(
            loop, deadline=options.deadline_ms / 1000, stop_timeout=options.deadline_ms / 4000
        )
        shutdown.on(ShutdownPhase.INTAKE)(bar.shut_the_door)
        shutdown.on(ShutdownPhase.DRAIN)(bar.see_guests_off)

        @shutdown.on(ShutdownPhase.KILL)
        def lights_out() -> None:
            say("lights out")

        port = await bar.open()
        with shutdown.on_signals():
            say(f"open on port {port}")
            if options.open_ms is not None:
                asyncio.get_running_loop().call_later(options.open_ms / 1000, shutdown.begin, "closing time")
            report = await shutdown.wait()
    say(str(report))
    return 0 if report.is_clean else 1


def print_event(event: RuntimeEvent) -> None:
    say(f"event: {type(event).__name__}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--open-ms", type=float, default=None, help="begin the shutdown after this time")
    parser.add_argument("--cook-ms", type=float, default=50, help="how long one order takes")
    parser.add_argument("--patience-ms", type=float, default=2000, help="how long a guest may take to order")
    parser.add_argument("--deadline-ms", type=float, default=5000, help="how long closing may take")
    logging.basicConfig(format="%(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    sys.exit(asyncio.run(main(parser.parse_args())))
