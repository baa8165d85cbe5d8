"""Say everything to a node that a node should not be told, and see that it lives, answers, and keeps its books.

Examples:
    python -m tests.fuzz                              two minutes, with a seed of its own
    python -m tests.fuzz --seconds 3600               an hour
    python -m tests.fuzz --seed 7 --seconds 10        the same inputs again
    python -m tests.fuzz build/fuzz/7-1794864299      only these inputs: what a run has saved, or a file
    python -m tests.fuzz --json                       what was found, for a program

First comes the corpus, `tests/fuzz/corpus`, then mutants of it. When something is wrong, the last inputs are saved in a folder below
`build/fuzz`: the last of them is the one at which it was noticed. One that shows the fault alone belongs into the corpus.

Ends with 0; with 1 if something is wrong, a sentence and the seed; with 2 for a wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import json
import secrets
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.arena import Entry, Report, read_corpus, run


def parse(arguments: list[str] | None) -> Namespace:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "inputs", metavar="FOLDER|FILE", nargs="*", type=Path, help="say only these, and no mutants"
    )
    parser.add_argument("--seconds", metavar="N", type=float, default=120.0, help="how long (default 120)")
    parser.add_argument("--seed", metavar="N", type=int, help="repeat a run (default: a new one)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 1_000_000:
        parser.error(f"--seconds is {options.seconds:g}: pass a number above 0, up to 1000000")
    for path in options.inputs:
        if not path.exists():
            parser.error(f"{path} is not there: pass a file, or a folder of files")
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    return options


def entries_of(paths: list[Path]) -> list[Entry] | None:
    """What was asked for; None for the corpus."""
    if not paths:
        return None
    found: list[Entry] = []
    for path in paths:
        if path.is_dir():
            found += [each for each in read_corpus(path) if each.name != "stderr.txt"]
        else:
            found += [each for each in read_corpus(path.parent) if each.name == path.name]
    return found


class Progress:
    """One line on stderr that changes on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def tell(self, report: Report) -> None:
        if not self._is_terminal and report.seconds < self._next:
            return
        self._next = report.seconds + 10
        line = f"{report.seconds:5.0f}/{self._seconds:.0f} s  {report.inputs:,} inputs  {report.answers:,} answers"
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    progress = Progress(options.seconds)
    entries = entries_of(options.inputs)
    try:
        report = run(options.seed, options.seconds, entries=entries, tell=progress.tell)
    except KeyboardInterrupt:
        print(f"interrupted; seed {options.seed}", file=sys.stderr)
        return 130
    finally:
        progress.close()
    if options.json:
        print(json.dumps(asdict(report), indent=2))
    else:
        print(
            f"{report.inputs:,} inputs in {report.seconds:.0f} s, {report.answers:,} answers; a neighbour was answered {report.pings:,} "
            f"times, within {report.slowest_ms} ms; {' and '.join(map(str, report.resident_mib))} MiB after the warm-up and in the end"
        )
    if report.failures:
        for failure in report.failures[:10]:
            print(f"fuzz: {failure}", file=sys.stderr)
        print(f"fuzz: failed; seed {options.seed}; the last inputs are in {report.saved}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
