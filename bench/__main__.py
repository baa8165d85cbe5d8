"""Measure bandstand beside its peers and print the tables.

Examples:
    python -m bench                                  everything, all rounds: it takes what it takes
    python -m bench --brief                          what fits into a quarter of an hour
    python -m bench --quick                          tiny sizes, seconds: does every case run and check its result?
    python -m bench --case ping-pong --case counting
    python -m bench --case thread-ring --rounds 9    more rounds against a noisy machine
    python -m bench --json build/bench.json          the same figures, and every round's, for a program

The tables go to stdout, progress to stderr. Ctrl-C shows what there is so far. Ends with 0; with 1 if a case failed or lost
messages; with 2 for a wrong option; with 130 if it was interrupted.
"""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Sequence
from pathlib import Path

from bench import machine, runner, table
from bench.case import Case
from bench.cases import CASES, by_name
from bench.progress import Progress
from bench.record import record
from bench.report import Report
from bench.runner import Cells
from bench.scale import Scale
from bench.system import SYSTEMS

ROUNDS: dict[Scale, int] = {"quick": 1, "brief": 3, "full": 5}
BRIEF_MINUTES = 15.0


def parse(arguments: list[str] | None) -> tuple[Namespace, list[Case]]:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="cases:\n" + "\n".join(f"  {case.name:<18} {case.what}" for case in CASES),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", metavar="NAME", action="append", help="only this case (may be repeated)")
    parser.add_argument("--rounds", metavar="N", type=int, help=f"how many rounds (default {ROUNDS['full']})")
    parser.add_argument(
        "--minutes", metavar="M", type=float, help="begin no round, after the first, that would end later"
    )
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument(
        "--brief",
        action="store_true",
        help=f"the cases that matter most, as many rounds up to {ROUNDS['brief']} as fit into {BRIEF_MINUTES:g} minutes",
    )
    scale.add_argument(
        "--quick", action="store_true", help="tiny sizes, one round: checks results, not speed"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there as well")
    options = parser.parse_args(arguments)
    if options.rounds is not None and not 1 <= options.rounds <= 1000:
        parser.error(f"--rounds is {options.rounds}: pass a number from 1 to 1000")
    if options.minutes is not None and not options.minutes > 0:
        parser.error(f"--minutes is {options.minutes:g}: pass a number above 0")
    if options.json is not None and (reason := _unwritable(options.json)):
        parser.error(f"--json is {str(options.json)!r}: {reason}")
    try:
        chosen = {by_name(name).name for name in options.case or ()}
    except LookupError as error:
        parser.error(str(error.args[0]))
    options.scale = "quick" if options.quick else "brief" if options.brief else "full"
    options.rounds = options.rounds or ROUNDS[options.scale]
    if options.brief and options.minutes is None:
        options.minutes = BRIEF_MINUTES
    return options, [case for case in CASES if _is_wanted(case, chosen, options.scale)]


def _is_wanted(case: Case, chosen: set[str], scale: Scale) -> bool:
    """Whom somebody has named is measured, however long it takes."""
    return case.name in chosen if chosen else case.is_brief or scale != "brief"


def _unwritable(path: Path) -> str | None:
    """Say why a file cannot be written, before minutes are spent on what goes into it."""
    try:
        with path.open("a", encoding="utf-8"):
            return None
    except OSError as error:
        return f"it cannot be written ({error.strerror})"


def measure(
    cases: Sequence[Case], rounds: int, scale: Scale = "full", minutes: float | None = None
) -> Report:
    """Run the cases on every system that can be measured here; until somebody interrupts, if somebody does."""
    where, versions = machine.describe(), machine.versions()
    refusals = runner.probe([system for system in SYSTEMS if any(system.measure(case) for case in cases)])
    plan = runner.plan(cases, [system for system in SYSTEMS if system.name not in refusals], rounds)
    cells: Cells = {}
    progress = Progress(plan, None if minutes is None else minutes * 60)
    is_partial = False
    try:
        rounds = runner.run(plan, cells, progress, scale=scale)
    except KeyboardInterrupt:
        is_partial = True
    finally:
        progress.close()
    return Report(
        cases=cases,
        cells=cells,
        machine=where,
        versions=versions,
        rounds=rounds,
        refusals=refusals,
        scale=scale,
        is_partial=is_partial,
    )


def main(arguments: list[str] | None = None) -> int:
    options, cases = parse(arguments)
    # As with Ctrl-C: the child at work is ended too, not left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = measure(cases, options.rounds, options.scale, options.minutes)
    except KeyboardInterrupt:
        print("interrupted before anything was measured", file=sys.stderr)
        return 130
    # The file first: who closes stdout meanwhile loses the tables, but no figures.
    if options.json is not None:
        options.json.write_text(json.dumps(record(report), indent=2, ensure_ascii=False) + "\n", "utf-8")
    print(table.render(report))
    if report.is_partial:
        print("interrupted: the tables show what there was so far", file=sys.stderr)
        return 130
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
