"""Run loops for long under a storm of everything at once, and check that their books balance and nothing is left behind.

Examples:
    python -m tests.soak                              two minutes, with a seed of its own
    python -m tests.soak --seconds 3600               an hour
    python -m tests.soak --seed 7 --seconds 10        the same decisions again
    python -m tests.soak --seed 7 --world 12          from its 13th world on
    BANDSTAND_PURE=1 python -m tests.soak             the interpreted kernel
    python -m tests.soak --json                       what was found, for a program

Decisions come from the seed; real threads and a real clock decide the rest, so a failure may need more than one try to
show again. Ends with 0; with 1 if something is wrong, a sentence and the seed; with 2 for a wrong option.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import json
import secrets
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter

from tests.soak.marathon import Report, run
from tests.soak.memory import MEBIBYTE


def parse(arguments: list[str] | None) -> Namespace:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m tests.soak", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", metavar="N", type=float, default=120.0, help="how long (default 120)")
    parser.add_argument(
        "--seed", metavar="N", type=int, help="repeat the decisions of a run (default: a new one)"
    )
    parser.add_argument("--world", metavar="N", type=int, default=0, help="begin with this world (default 0)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 1_000_000:
        parser.error(f"--seconds is {options.seconds:g}: pass a number above 0, up to 1000000")
    if options.world < 0:
        parser.error(f"--world is {options.world}: pass a number from 0 on")
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    return options


class Progress:
    """One line on stderr that changes on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def tell(self, report: Report, plan: str) -> None:
        if not self._is_terminal and report.seconds < self._next:
            return
        self._next = report.seconds + 10
        line = (
            f"{report.seconds:5.0f}/{self._seconds:.0f} s  world {report.worlds}  "
            f"{report.counts['handled']:,} handled  {plan}"
        )
        sys.stderr.write(f"\r\x1b[K{line[:110]}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def show(report: Report) -> None:
    """Print what was found, for people."""
    counts = report.counts
    print(
        f"{report.worlds} worlds in {report.seconds:.0f} s, {report.mode}: {counts['spawned']:,} actors, "
        f"{counts['sent']:,} sends, {counts['handled']:,} handled, {counts['refused']:,} refused, "
        f"{counts['dead']:,} dead, {counts['dropped']:,} dropped"
    )
    print(
        f"timers: {counts['timers_set']:,} set, {counts['timers_delivered']:,} delivered, "
        f"{counts['timers_cancelled']:,} cancelled; {counts['io_events']:,} I/O events, {counts['io_errors']:,} of them "
        f"of closed descriptors; {counts['knocks']:,} knocks; {counts['inner_loops']:,} inner loops"
    )
    print(
        f"{counts['concerts']:,} concerts: {counts['bus_asked']:,} asked, {counts['bus_answered']:,} answered to those who stayed, "
        f"{counts['bus_crashes']:,} crashes, {counts['bus_refused']:,} no messages, {counts['bus_abandoned']:,} abandoned; "
        f"99 of 100 polite questions within {report.slowest * 1000:.1f} ms in the slowest"
    )
    if counts["storms"]:
        print(
            f"{counts['storms']:,} storms over pods: {counts['incarnations']:,} incarnations, {counts['begun']:,} handled, "
            f"{counts['ask answered']:,} asks answered, {counts['lost']:,} one-way messages lost and accounted for, "
            f"{counts['in_doubt']:,} in doubt"
        )
    if report.warm is not None and report.end is not None:
        print(
            f"memory: {report.warm.resident / MEBIBYTE:.1f} MiB at most in the warm-up, {report.end.resident / MEBIBYTE:.1f} "
            f"at least at the end; {report.warm.blocks:,} and {report.end.blocks:,} blocks"
        )


def complain(seed: int, failures: list[str]) -> None:
    """Say what is wrong."""
    for failure in failures:
        print(f"soak: {failure}", file=sys.stderr)
    print(f"soak: failed; seed {seed}", file=sys.stderr)


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    progress = Progress(options.seconds)
    try:
        report = run(
            options.seed,
            options.seconds,
            first=options.world,
            tell=progress.tell,
            on_hang=lambda failures: complain(options.seed, failures),
        )
    except KeyboardInterrupt:
        print(f"interrupted; seed {options.seed}", file=sys.stderr)
        return 130
    finally:
        progress.close()
    if options.json:
        print(json.dumps(report.as_json(), indent=2))
    else:
        show(report)
    if report.failures:
        complain(options.seed, report.failures)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
