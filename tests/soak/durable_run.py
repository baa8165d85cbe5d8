"""Send many commands to a node with a journal, and check that its memory is flat.

Examples:
    python -m tests.soak.durable_run                        a million commands
    python -m tests.soak.durable_run --commands 10000000    ten million
    python -m tests.soak.durable_run --keep 16              with a smaller journal
    python -m tests.soak.durable_run --json                 the result for a program

The commands write every kind of record: requests, answers, events, timers, dead letters and checkpoints. In the end each command has had one answer,
the counters of the node balance, it holds no more memory than after the first fifth of the commands, within a tolerance, and its journal is not larger than
it may be. Ends with 0; with 1 if something is wrong; with 2 for a wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import re
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from bandstand import _build_mode
from tests.soak.console import Progress, parser_of, run_program
from tests.soak.memory import MEBIBYTE
from tests.soak.node_process import NodeProcess

NODE = "tests.soak.journal_program"
BATCH = 500
WARM_UP = 0.2
"""The share of the commands after which memory must not grow any more."""
GROWTH = 8 * MEBIBYTE
"""How much more may be resident then."""
SLACK_MIB = 64
"""How much larger the files may be than what the node keeps: pages that a start needs, the write-ahead log, and what the next checkpoint deletes."""
JUDGED_FROM = 200_000
"""Commands from which on memory is compared: shorter runs are all warm-up."""

ANSWER = re.compile(rb'^\{"kind":"(?:reply|error)","type":"([A-Za-z.]+)",.*"causation":"c(\d+)"')


@dataclass
class Report:
    """What a run has found."""

    seed: int
    mode: str = field(default_factory=_build_mode.mode)
    commands: int = 0
    seconds: float = 0.0
    answers: Counter[str] = field(default_factory=Counter[str])
    """By their type."""
    resident_mib: list[float] = field(default_factory=list[float])
    """The most in the warm-up, and the least at the end."""
    journal_mib: float = 0.0
    """The files of the journal at the end."""
    failures: list[str] = field(default_factory=list[str])


def play(seed: int, commands: int, keep_mib: int, tell: Callable[[Report], object]) -> Report:
    """Send as many commands to a node that keeps as many MiB of its journal, and compare."""
    report, begin = Report(seed), time.monotonic()
    warm: list[int] = []
    late: list[int] = []
    # The journal must be on a disk, and be deleted afterwards.
    with tempfile.TemporaryDirectory(prefix="journal-") as folder:
        node = NodeProcess(NODE, Path(folder), str(keep_mib * MEBIBYTE), is_strict=False)
        try:
            node.ask("Syscall.Ping")
            before = node.descriptors()
            with node.connect() as connection, connection.makefile("rb") as answers:
                while report.commands < commands and not report.failures:
                    send_batch(report, connection, answers)
                    if report.commands % (20 * BATCH) == 0:
                        share = report.commands / commands
                        if WARM_UP / 2 <= share < WARM_UP:
                            warm.append(node.resident())
                        elif share >= 0.9:
                            late.append(node.resident())
                    report.seconds = time.monotonic() - begin
                    tell(report)
            report.failures += node.check_idle(before)
            if (code := node.stop()) != 0:
                report.failures.append(f"asked to stop, the node ended with {code}")
        except (OSError, ValueError) as error:
            report.failures.append(f"{error!r} was raised\n{node.said[-2000:]}")
        finally:
            node.kill()
        report.failures += node.complaints()
        size = sum(file.stat().st_size for file in Path(folder, "journal").iterdir())
        report.journal_mib = round(size / MEBIBYTE, 1)
    if report.journal_mib > keep_mib + SLACK_MIB:
        report.failures.append(
            f"the journal has {report.journal_mib} MiB, and the node keeps {keep_mib}; {keep_mib + SLACK_MIB} would pass"
        )
    compare_memory(report, warm, late)
    return report


def send_batch(report: Report, connection: socket.socket, answers: BinaryIO) -> None:
    """Send some commands at once, and read one answer for each."""
    numbers = range(report.commands, report.commands + BATCH)
    connection.sendall(
        b"".join(
            [
                b'{"kind":"command","type":"Counter.Count","data":{"number":%d},"metadata":{"id":"c%d","timestamp":1767910000000}}\n'
                % (number, number)
                for number in numbers
            ]
        )
    )
    owed = set(numbers)
    for _ in numbers:
        line = answers.readline()
        found = ANSWER.match(line)
        if found is None or int(found[2]) not in owed:
            report.failures.append(f"this answers no command that waits: {line[:300]!r}")
            return
        owed.remove(int(found[2]))
        report.answers[found[1].decode()] += 1
    report.commands += BATCH


def compare_memory(report: Report, warm: list[int], late: list[int]) -> None:
    """Check that memory is flat: a leak of nine bytes for each of a million commands is found."""
    if not warm or not late:
        return
    most, least = max(warm), min(late)
    report.resident_mib = [round(each / MEBIBYTE, 1) for each in (most, least)]
    if report.commands >= JUDGED_FROM and least - most > GROWTH:
        report.failures.append(
            f"{(least - most) / MEBIBYTE:.1f} MiB more are resident than after the warm-up; {GROWTH / MEBIBYTE:.0f} would pass"
        )


def show(report: Report) -> None:
    """Print what was found, for people."""
    answers = ", ".join(f"{name} {count:,}" for name, count in sorted(report.answers.items()))
    memory = " and ".join(f"{each} MiB" for each in report.resident_mib) or "not measured"
    print(
        f"{report.commands:,} durable commands in {report.seconds:.0f} s, {report.mode} ({answers}); memory after the warm-up and at the end: {memory}; "
        f"the journal has {report.journal_mib} MiB"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("soak.durable_run", __doc__)
    parser.add_argument(
        "--commands", metavar="N", type=int, default=1_000_000, help="how many (default 1000000)"
    )
    parser.add_argument(
        "--keep",
        metavar="MIB",
        type=int,
        default=128,
        help="how much the node keeps of its journal (default 128)",
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.commands <= 1_000_000_000:
        parser.error(f"--commands is {options.commands}: pass a number from 1 to 1000000000")
    if not 0 <= options.keep <= 1_000_000:
        parser.error(f"--keep is {options.keep}: pass a number from 0 to 1000000")

    def run(seed: int, progress: Progress) -> Report:
        def tell(report: Report) -> None:
            progress.tell(
                report.seconds, f"{report.seconds:5.0f} s  {report.commands:,}/{options.commands:,} commands"
            )

        return play(seed, options.commands, options.keep, tell)

    return run_program("soak.durable_run", options, run, show, vars)


if __name__ == "__main__":
    sys.exit(main())
