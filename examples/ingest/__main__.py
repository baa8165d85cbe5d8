"""Run the store with a load, or check the files of a store.

python -m examples.ingest run FOLDER              three series, 2,000 points each; acknowledgements go to stdout
python -m examples.ingest run FOLDER --full-disk 3   the next three syncs fail: the store waits and continues
python -m examples.ingest check FOLDER            show what is durable, and whether it is correct

The exit code is 1 if something is damaged or wrong, and 2 if the arguments are invalid or a store is running in the
folder.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Callable
from math import inf
from pathlib import Path

from bandstand import ActorSystem, child
from bandstand.supervision import ChildSpec, RestartPolicy, SupervisorSpec
from examples.ingest.disk import Disk, FullDisk, TakenError, held
from examples.ingest.feeder import Feeder, value_of
from examples.ingest.index import Spans
from examples.ingest.points import CorruptError
from examples.ingest.recover import recover
from examples.ingest.tree import Settings, Store, open_store

logger = logging.getLogger("ingest")


def acknowledge(series: str, number: int) -> None:
    """Print an acknowledgement. It is one unbuffered write, so a kill cannot lose half of it."""
    os.write(sys.stdout.fileno(), f"{series} {number}\n".encode())


async def run(settings: Settings, points: int, disk: Disk) -> None:
    async with ActorSystem() as system:
        store = open_store(system, settings, disk)
        await feed(store, points)
        for name, each in store.series.items():
            logger.info("%s: %s", name, index_summary(await each.index.blocks()))
        logger.info("%s", store_summary(system, await store.metrics.read()))


async def feed(store: Store, points: int) -> None:
    left = len(store.series)
    is_done = asyncio.Event()

    def at_end() -> None:
        nonlocal left
        left -= 1
        if not left:
            is_done.set()

    feeders = [
        child(name, restart=RestartPolicy.ON_FAILURE).of(Feeder, name, each.head, points, acknowledge, at_end)
        for name, each in store.series.items()
    ]
    # If standard output is closed, acknowledgements fail, the supervisor gives up, and the program ends.
    store.root.start_child(ChildSpec("feeders", SupervisorSpec(children=feeders)))
    await is_done.wait()


def index_summary(blocks: Spans) -> str:
    if not blocks:
        return "no blocks yet"
    first, last = min(blocks.values())[0], max(blocks.values())[1]
    return f"points {first} to {last} are in blocks, of which there are {len(blocks)}"


def store_summary(system: ActorSystem, counts: dict[str, int]) -> str:
    figures = ", ".join(f"{what} {n}" for what, n in sorted(counts.items()))
    return f"done: {figures}\n{system.tree()}"


def check(folder: Path) -> int:
    """Print what is durable. Return 1 if it is wrong."""
    try:
        for each in sorted(path for path in folder.iterdir() if path.is_dir()):
            found = recover(each)
            wrong = [point for point in found.points if point.value != value_of(point.number)]
            first = found.points[0].number if found.points else 0
            print(
                f"{each.name}: points {first} to {found.last}, {len(wrong)} wrong, {found.torn_bytes} torn bytes"
            )
            if wrong:
                return 1
    except (CorruptError, OSError) as error:
        print(f"damaged: {error}", file=sys.stderr)
        return 1
    return 0


def whole(least: int) -> Callable[[str], int]:
    """Return a parser of whole numbers that are at least `least`."""

    def read(text: str) -> int:
        if not text.isdecimal() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number of at least {least}")
        return int(text)

    return read


def milliseconds(text: str) -> float:
    try:
        ms = float(text)
    except ValueError:
        ms = 0
    if not 0 < ms < inf:
        raise argparse.ArgumentTypeError(f"{text!r} is no time in milliseconds: it must be more than 0")
    return ms


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m examples.ingest", description="A time-series store that takes points in."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    runs = verbs.add_parser("run", help="take points in until every series has so many")
    checks = verbs.add_parser("check", help="say what is durable")
    for each in (runs, checks):
        each.add_argument("folder", type=Path)
    runs.add_argument("--series", type=whole(1), default=3, help="how many series (default: 3)")
    runs.add_argument("--points", type=whole(1), default=2_000, help="how many points each (default: 2000)")
    runs.add_argument(
        "--flush-ms", type=milliseconds, default=20, help="how often points become durable (default: 20)"
    )
    runs.add_argument(
        "--maintenance-ms",
        type=milliseconds,
        default=200,
        help="how often segments are rotated (default: 200)",
    )
    runs.add_argument(
        "--keep", type=whole(1), help="how many points of a series are kept at least (default: all)"
    )
    runs.add_argument("--full-disk", type=whole(0), default=0, help="how many syncs fail first")
    options = parser.parse_args()
    if not options.folder.is_dir() and (options.verb == "check" or options.folder.exists()):
        parser.error(f"{options.folder} is no folder")
    try:
        if options.verb == "run":
            Disk().make_folder(options.folder)
        with held(options.folder):
            return check(options.folder) if options.verb == "check" else take_in(options)
    except TakenError as error:
        print(error, file=sys.stderr)
        return 2


def take_in(options: argparse.Namespace) -> int:
    logging.basicConfig(level=logging.INFO, format="%(relativeCreated)5d ms  %(message)s")
    settings = Settings(
        folder=options.folder,
        series=[f"series-{number}" for number in range(options.series)],
        flush_ms=options.flush_ms,
        maintenance_ms=options.maintenance_ms,
        keep=options.keep,
    )
    asyncio.run(run(settings, options.points, FullDisk(options.full_disk)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
