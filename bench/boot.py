"""How long a node takes to start from a journal: `python -m bench.boot`.

The journal is written as a node writes it: commands and their answers, a hundred to a page, a checkpoint after every 4 MiB, and some commands that are
open from the beginning. Then a node starts from it. The time until it is ready is that of a start after a crash, without the imports. Afterwards the
results are checked: the node has handled every open command once, and the answers that it remembers have been found.

Two more figures say how fast it reads: from the page where a start begins, and the whole journal, as if it had no checkpoint.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from bandstand.bus import Capability, Command, Node, NodeConfig
from bandstand.bus.durable.records import (
    ANSWER,
    FROM_CLIENT,
    IS_BEGUN,
    IS_REMEMBERED,
    REQUEST,
    Checkpoint,
    answer_data,
    json_record,
    request_data,
)
from bandstand.bus.durable.records import CHECKPOINT as CHECKPOINT_KIND
from bandstand.bus.durable.recovery import read_journal
from bandstand.bus.durable.state import DurableState, RememberedPages
from bandstand.core.asyncio_host import new_event_loop
from bandstand.journal import Journal, JournalReader, Record
from bench.case import WrongResultError

ROOT = Path(__file__).resolve().parents[1]
PAGE = 100
"""Commands in a page."""
CHECKPOINT_BYTES = 4 << 20
KEEP_MS = 3_600_000

handled: Counter[int] = Counter()


class Place(Command[int], type="Orders.Place"):
    """A command of some 200 bytes."""

    number: int
    item: str


class Orders(Capability):
    """Counts how often each command is handled."""

    mailbox = 1 << 20

    def place(self, msg: Place) -> int:
        handled[msg.number] += 1
        return msg.number


def request_record(number: int, at: int, flags: int) -> Record:
    line = (
        b'{"kind":"command","type":"Orders.Place","data":{"number":%d,"item":"%s"},"metadata":{"id":"order-%012d","timestamp":%d,'
        b'"timeout":86400000}}' % (number, b"teapot" * 8, number, at)
    )
    return Record(REQUEST, request_data(number, at, FROM_CLIENT | flags, line))


def answer_record(number: int, at: int) -> Record:
    line = (
        b'{"kind":"reply","type":"Orders.Place","data":%d,"metadata":{"id":"answer-%012d","timestamp":%d,"causation":"order-%012d"}}'
        % (number, number, at, number)
    )
    return Record(ANSWER, answer_data(number, IS_REMEMBERED, line))


def pages(size: int, open_count: int, config: NodeConfig) -> Iterator[list[Record]]:
    """Yield the pages of a journal of about this many bytes."""
    at = int(time.time() * 1000)
    opened = [request_record(number, at, 0) for number in range(1, open_count + 1)]
    written = grown = 0
    page, number = 1, open_count + 1
    remembered = RememberedPages(config.remember_count, KEEP_MS)
    yield opened
    while written < size:
        page += 1
        numbers = range(number, number + PAGE)
        number += PAGE
        records = [
            *(request_record(each, at, IS_BEGUN) for each in numbers),
            *(answer_record(each, at) for each in numbers),
        ]
        remembered.note(page, at, PAGE)
        grown += sum([len(record.data) for record in records])
        yield records
        if grown >= CHECKPOINT_BYTES:
            page += 1
            written += grown + sum([len(record.data) for record in opened])
            grown = 0
            yield [json_record(CHECKPOINT_KIND, Checkpoint(number, remembered.read_from(at))), *opened]


async def write(folder: Path, size: int, open_count: int, config: NodeConfig) -> None:
    async with Journal(folder) as journal:
        for records in pages(size, open_count, config):
            await journal.append(*records)


async def start(folder: Path, open_count: int, config: NodeConfig) -> float:
    """Start a node, wait until it has handled what was open, and return how long the start took."""
    node = Node([Orders], journal=folder, config=config)
    begin = time.perf_counter()
    async with node:
        taken = time.perf_counter() - begin
        await node.wait_quiet()
    if handled != Counter(range(1, open_count + 1)):
        raise WrongResultError(f"{open_count} commands were open, and {handled.total()} were handled")
    return taken


def measure(folder: Path, open_count: int, config: NodeConfig) -> dict[str, float]:
    with JournalReader(folder) as reader:
        counts = [(page.number, len(page.records)) for page in reader.pages()]
    begin, cpu = time.perf_counter(), time.thread_time()
    contents = read_journal(folder, config.remember_count, KEEP_MS)
    read_s, read_cpu = time.perf_counter() - begin, time.thread_time() - cpu
    if len(contents.state.open) != open_count or len(contents.answers) != config.remember_count:
        raise WrongResultError(
            f"{len(contents.state.open)} are open, and {len(contents.answers)} are remembered"
        )
    begin, cpu = time.perf_counter(), time.thread_time()
    state = DurableState(on_answer=lambda _answer, _page: None)
    with JournalReader(folder) as reader:
        for page in reader.pages():
            for record in page.records:
                state.apply(record, page.at, page.number)
    whole_s, whole_cpu = time.perf_counter() - begin, time.thread_time() - cpu
    if len(state.open) != open_count:
        raise WrongResultError(f"{len(state.open)} are open")
    records = sum([count for _, count in counts])
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        boot_s = runner.run(start(folder, open_count, config))
    return {
        "pages": len(counts),
        "records": records,
        "bootS": boot_s,
        "recoverS": read_s,
        "recoverCpuS": read_cpu,
        "wholeS": whole_s,
        "wholeRecordsPerS": records / whole_s,
        "wholeRecordsPerCpuS": records / whole_cpu,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m bench.boot", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--mib", type=int, default=1024, help="the size of the journal (default 1024)")
    parser.add_argument("--open", type=int, default=10_000, help="how many commands are open (default 10000)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    config = NodeConfig(max_in_flight=1 << 16)
    (ROOT / "build").mkdir(exist_ok=True)
    # Not where temporary files are: that may be memory.
    with TemporaryDirectory(prefix="bench-", dir=ROOT / "build") as name:
        folder = Path(name) / "journal"
        asyncio.run(write(folder, options.mib << 20, options.open, config))
        found = measure(folder, options.open, config)
    if options.json:
        print(json.dumps(found))
    else:
        print(
            f"{options.mib} MiB, {found['pages']:,} pages, {found['records']:,} records, {options.open:,} commands open: a node is ready in "
            f"{found['bootS']:.2f} s, of which reading takes {found['recoverS']:.2f} s; the whole journal is read in {found['wholeS']:.1f} s, "
            f"{found['wholeRecordsPerS']:,.0f} records/s ({found['wholeRecordsPerCpuS']:,.0f} per second of processor time)"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
