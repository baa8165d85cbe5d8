"""Let a scripted model run the office.

python -m examples.agents "find an hour for Grace"
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from bandstand.bus import Node, UnixAdapter, connect
from examples.agents.agent import Agent
from examples.agents.model import Scripted
from examples.agents.office import capabilities


async def work(task: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder, "office.sock")
        # The same as `bandstand serve examples/agents/office.py` in another process: the agent only knows the address.
        async with Node(capabilities, adapters=[UnixAdapter(path)]), connect(f"unix:{path}") as bus:
            await Agent(bus, Scripted(), "Diary.*", show=print).work(task)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m examples.agents", description="Let a scripted model run an office."
    )
    parser.add_argument("task", nargs="?", default="find an hour for Grace", help="ends with a name")
    task = parser.parse_args().task
    if not task.split():
        parser.error("the task has no words: say what to do, and for whom")
    asyncio.run(work(task))


if __name__ == "__main__":
    main()
