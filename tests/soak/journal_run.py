"""Cut the power, and damage journals: thousands of crash images, every bit of a small journal, and real power cuts.

Examples:
    python -m tests.soak.journal_run                                all of it, with a new seed
    python -m tests.soak.journal_run --images 20000                 more images
    python -m tests.soak.journal_run --images 0 --bits 0            power cuts only
    python -m tests.soak.journal_run --seed 7                       the same images again

- *Crash images.* The real SQLite writes a journal while every write and sync is recorded. Whatever may be on the disk after a cut at any moment is recovered: everything
  that was reported as durable is there, and nothing else.
- *Bits.* Each bit of a journal, closed and in its write-ahead log, is flipped: it is reported, or changes nothing.
- *Power cuts.* A process writes to an ext4 file system on a loop device, which loses everything that was not synced. Needs root.

What cannot be tested here is named in the result. Ends with 0; with 1 and the seed if something is wrong; with 2 for a wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from bandstand.journal import Record, storage
from bandstand.journal.engine import Engine, apsw_engine, journal_engine, python_engine
from tests.journal.crash_images import NoRecorderError, check_images, compile_recorder, draw_moments, record
from tests.journal.journals import Flips, write_and_kill, write_pages
from tests.journal.power_cut import NoDiskError, PowerCuts, loop_disk
from tests.soak.console import Progress, parser_of, run_program

IMAGES_OF_A_RUN = 200
ALL = 1 << 40
SMALL = [[Record(1, b"a line")], [Record(2, bytes(100)), Record(1, b"")]]


@dataclass
class Report:
    """What a run has found."""

    seed: int
    seconds: float = 0.0
    engines: list[str] = field(default_factory=list[str])
    images: int = 0
    bits: int = 0
    found: int = 0
    """Of the bits, those whose damage was reported; the others changed nothing."""
    cuts: int = 0
    acknowledged: int = 0
    """Records that were reported as durable before the power cuts."""
    skipped: list[str] = field(default_factory=list[str])
    failures: list[str] = field(default_factory=list[str])


Tell = Callable[[Report, str], None]


def installed_engines() -> list[Engine]:
    return [engine for engine in (python_engine(), apsw_engine()) if engine is not None]


def use(engine: Engine) -> None:
    """Let the journals of this process use an engine."""
    module: Any = storage
    module.journal_engine = lambda: engine


def cut_images(report: Report, folder: Path, images: int, tell: Tell) -> None:
    """Recover from crash images."""
    try:
        recorder = compile_recorder(folder)
    except NoRecorderError as error:
        report.skipped.append(f"crash images: {error}")
        return
    random_, run = Random(report.seed), 0
    while report.images < images and not report.failures:
        for engine in installed_engines():
            use(engine)
            seed, run = report.seed * 1000 + run, run + 1
            entries = record(recorder, folder / f"run{run}", seed, engine.package)
            moments = draw_moments(entries, min(IMAGES_OF_A_RUN, images), random_)
            report.failures += [
                f"{engine.describe}: {problem}"
                for problem in check_images(entries, seed, folder, moments, random_)
            ]
            report.images += len(moments)
            tell(report, f"{report.images:,}/{images:,} crash images")


def flip_bits(report: Report, folder: Path, bits: int, tell: Tell) -> None:
    """Flip bits of a small journal: all, or so many that are drawn."""
    use(journal_engine())
    random_ = Random(report.seed)
    for name, write in (("journal.sqlite", write_pages), ("journal.sqlite-wal", write_and_kill)):
        directory = folder / name
        write(directory, SMALL)
        flips = Flips(directory, folder / f"{name}-copy")
        size = flips.bits(name)
        chosen: Iterable[int] = range(size) if bits >= size else random_.sample(range(size), bits)
        for bit in chosen:
            result = flips.check(name, bit)
            report.bits += 1
            report.found += result == "found"
            if result not in {None, "found"}:
                report.failures.append(str(result))
            tell(report, f"{report.bits:,} bits, {report.found:,} of them found")


def cut_power(report: Report, rounds: int, tell: Tell) -> None:
    """Cut the power of a real file system."""
    use(journal_engine())
    with TemporaryDirectory() as name:
        try:
            with loop_disk(Path(name)) as disk:
                cuts = PowerCuts(disk, Random(report.seed))
                for _ in range(rounds):
                    try:
                        cuts.play_round()
                    except AssertionError as error:
                        report.failures.append(f"power cut {report.cuts + 1}: {error}")
                        return
                    report.cuts += 1
                    report.acknowledged = len(cuts.acknowledged)
                    tell(report, f"{report.cuts}/{rounds} power cuts, {report.acknowledged:,} records")
        except NoDiskError as error:
            report.skipped.append(f"power cuts: {error}")


def play(seed: int, images: int, bits: int, rounds: int, tell: Tell = lambda _report, _what: None) -> Report:
    """Do all of it."""
    report = Report(seed, engines=[engine.describe for engine in installed_engines()])
    began = time.monotonic()

    def tell_time(report: Report, what: str) -> None:
        report.seconds = time.monotonic() - began
        tell(report, what)

    # Images and copies are written thousands of times: in memory, where that is possible.
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None
    with TemporaryDirectory(dir=memory) as name:
        folder = Path(name)
        if images:
            cut_images(report, folder, images, tell_time)
        if bits:
            flip_bits(report, folder, bits, tell_time)
    if rounds:
        cut_power(report, rounds, tell_time)
    report.seconds = time.monotonic() - began
    return report


def show(report: Report) -> None:
    print(f"{report.seconds:.0f} s; {' and '.join(report.engines)}")
    print(f"{report.images:,} crash images recovered")
    print(f"{report.bits:,} bits flipped: {report.found:,} were reported, the others changed nothing")
    print(
        f"{report.cuts} power cuts: {report.acknowledged:,} records that were reported as durable are there"
    )
    for reason in report.skipped:
        print(f"NOT TESTED: {reason}")


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("soak.journal_run", __doc__)
    for name, default, what in (
        ("images", 5000, "how many crash images (default 5000)"),
        ("bits", ALL, "how many bits of each file (default: all)"),
        ("rounds", 50, "how many power cuts (default 50)"),
    ):
        parser.add_argument(f"--{name}", metavar="N", type=int, default=default, help=what)
    options = parser.parse_args(arguments)
    for name in ("images", "bits", "rounds"):
        if getattr(options, name) < 0:
            parser.error(f"--{name} is {getattr(options, name)}: pass a number from 0 on")

    def run(seed: int, progress: Progress) -> Report:
        def tell(report: Report, what: str) -> None:
            progress.tell(report.seconds, f"{report.seconds:5.0f} s  {what}")

        return play(seed, options.images, options.bits, options.rounds, tell)

    return run_program("journal_run", options, run, show, vars)


if __name__ == "__main__":
    sys.exit(main())
