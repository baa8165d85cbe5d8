"""Run the server, and connect with a program such as `nc`.

python -m examples.chat --port 7000
nc 127.0.0.1 7000
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import signal

from bandstand import ActorSystem
from examples.chat.server import open_house


async def serve(host: str, port: int) -> None:
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    async with ActorSystem() as loop, open_house(loop, host, port) as (_house, known):
        print(f"listening on {host} port {known}; Ctrl-C ends it", flush=True)
        await over.wait()
        print(loop.tree())


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.chat", description="A chat server.")
    parser.add_argument("--host", default="127.0.0.1", help="where to listen (default: 127.0.0.1)")
    parser.add_argument("--port", type=int, default=7000, help="0 for any free port (default: 7000)")
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    asyncio.run(serve(options.host, options.port))


if __name__ == "__main__":
    main()
