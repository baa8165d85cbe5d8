"""Measure bandstand beside its peers and print one table.

Examples:
    python -m bench                                  everything, a few minutes
    python -m bench --quick                          tiny sizes, seconds: does every case run and check its result?
    python -m bench --case ping-pong --case counting
    python -m bench --case thread-ring --rounds 9    more rounds against a noisy machine
    python -m bench --json build/bench.json          the same figures, and every round's, for a program

The table goes to stdout, progress to stderr. Ends with 0; with 1 if a case failed or lost messages; with 2 for a wrong option.
"""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from bench import machine, runner, table
from bench.case import Case
from bench.cases import CASES, by_name
from bench.progress import Progress
from bench.report import Report
from bench.system import SYSTEMS

ROUNDS = 5


def parse(arguments: list[str] | None) -> tuple[Namespace, list[Case]]:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m bench",
        description=__doc__,
        epilog="cases:\n" + "\n".join(f"  {case.name:<18} {case.what}" for case in CASES),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--case", metavar="NAME", action="append", help="only this case (may be repeated)")
    parser.add_argument("--rounds", metavar="N", type=int, help=f"how many rounds (default {ROUNDS})")
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes, one round: checks results, not speed"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there as well")
    options = parser.parse_args(arguments)
    if options.rounds is not None and not 1 <= options.rounds <= 1000:
        parser.error(f"--rounds is {options.rounds}: pass a number from 1 to 1000")
    if options.json is not None and (reason := _unwritable(options.json)):
        parser.error(f"--json is {str(options.json)!r}: {reason}")
    try:
        chosen = {by_name(name).name for name in options.case or [case.name for case in CASES]}
    except LookupError as error:
        parser.error(str(error.args[0]))
    options.rounds = options.rounds or (1 if options.quick else ROUNDS)
    return options, [case for case in CASES if case.name in chosen]


def _unwritable(path: Path) -> str | None:
    """Say why a file cannot be written, before minutes are spent on what goes into it."""
    try:
        with path.open("a", encoding="utf-8"):
            return None
    except OSError as error:
        return f"it cannot be written ({error.strerror})"


def measure(cases: list[Case], rounds: int, *, is_quick: bool) -> Report:
    """Run the cases on every system that can be measured here."""
    where = machine.describe()
    refusals = runner.probe()
    systems = [system for system in SYSTEMS if system.name not in refusals]
    progress = Progress(rounds)
    try:
        cells = runner.run(cases, systems, rounds=rounds, is_quick=is_quick, tell=progress.tell)
    finally:
        progress.close()
    return Report(cases, cells, refusals, where, rounds, is_quick)


def main(arguments: list[str] | None = None) -> int:
    options, cases = parse(arguments)
    # As with Ctrl-C: the child at work is ended too, not left behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        report = measure(cases, options.rounds, is_quick=options.quick)
    except KeyboardInterrupt:
        print("interrupted: no table", file=sys.stderr)
        return 130
    print(table.render(report))
    if options.json is not None:
        options.json.write_text(json.dumps(report.as_json(), indent=2, ensure_ascii=False) + "\n", "utf-8")
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
