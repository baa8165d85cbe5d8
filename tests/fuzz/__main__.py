"""Send a node everything that it should not be sent, and check that it lives, answers, and that its counters balance.

Examples:
    python -m tests.fuzz                              two minutes, with a new seed
    python -m tests.fuzz --seconds 3600               an hour
    python -m tests.fuzz --seed 7 --seconds 10        the same inputs again
    python -m tests.fuzz build/fuzz/7-1794864299      only these inputs: what a run has saved, or a file
    python -m tests.fuzz --json                       the result for a program

First comes the corpus, `tests/fuzz/corpus`, then mutants of it. When something is wrong, the last inputs are saved in a folder below
`build/fuzz`: the fault was found at the last of them. An input that shows a fault alone belongs into the corpus.

Ends with 0; with 1 and the seed if something is wrong; with 2 for a wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path

from tests.fuzz.fuzz_run import Entry, Report, read_corpus, run
from tests.soak.console import Progress, parser_of, run_program


def entries_of(paths: list[Path]) -> list[Entry] | None:
    """Return the inputs that were asked for; None for the corpus."""
    found: list[Entry] = []
    for path in paths:
        if path.is_dir():
            found += [each for each in read_corpus(path) if each.name != "stderr.txt"]
        else:
            found += [each for each in read_corpus(path.parent) if each.name == path.name]
    return found if paths else None


def show(report: Report) -> None:
    """Print what was found, for people."""
    memory = " and ".join(map(str, report.resident_mib))
    print(
        f"{report.inputs:,} inputs in {report.seconds:.0f} s, {report.answers:,} answers; {report.pings:,} pings, answered "
        f"within {report.slowest_ms} ms; {memory} MiB after the warm-up and at the end"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("fuzz", __doc__)
    parser.add_argument(
        "inputs", metavar="FOLDER|FILE", nargs="*", type=Path, help="send only these, and no mutants"
    )
    parser.add_argument("--seconds", metavar="N", type=float, default=120.0, help="how long (default 120)")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 1_000_000:
        parser.error(f"--seconds is {options.seconds:g}: pass a number above 0, up to 1000000")
    for path in options.inputs:
        if not path.exists():
            parser.error(f"{path} is not there: pass a file, or a folder of files")

    def start(seed: int, progress: Progress) -> Report:
        def tell(report: Report) -> None:
            done = f"{report.inputs:,} inputs  {report.answers:,} answers"
            progress.tell(report.seconds, f"{report.seconds:5.0f}/{options.seconds:.0f} s  {done}")

        report = run(seed, options.seconds, entries=entries_of(options.inputs), tell=tell)
        if report.saved:
            report.failures.append(f"the last inputs are in {report.saved}")
        return report

    return run_program("fuzz", options, start, show, asdict)


if __name__ == "__main__":
    sys.exit(main())
