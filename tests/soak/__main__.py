"""Run loops and pods for a long time under random load, and check that their counters balance and nothing is left behind.

Examples:
    python -m tests.soak                              two minutes, with a new seed
    python -m tests.soak --seconds 3600               an hour
    python -m tests.soak --seed 7 --seconds 10        the same decisions again
    python -m tests.soak --seed 7 --first 12          from its 13th run on
    BANDSTAND_PURE=1 python -m tests.soak             the interpreted kernel
    python -m tests.soak --json                       the result for a program

Decisions come from the seed; real threads and a real clock decide the rest, so a failure may need more than one try to
show again. Ends with 0; with 1 and the seed if something is wrong; with 2 for a wrong option.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import sys

from tests.soak.console import Progress, complain, parser_of, run_program
from tests.soak.memory import MEBIBYTE
from tests.soak.runs import Report, soak

LINES = {
    "runs": """{spawned:,} actors, {sent:,} sends, {handled:,} handled, {refused:,} refused, {dead:,} dead, {dropped:,} dropped
{timers_set:,} timers set, {timers_cancelled:,} cancelled""",
    "pod_runs": """{pod_runs:,} deployments of pods: {starts:,} starts, {begun:,} handled, {ask_answered:,} asks answered,
{lost:,} one-way messages lost and accounted for, {in_doubt:,} in doubt""",
}


def show(report: Report) -> None:
    """Print what was found, for people."""
    counts = report.counts
    counts["runs"] = report.runs
    print(f"{report.runs} runs in {report.seconds:.0f} s, {report.mode}")
    for name, line in LINES.items():
        if counts[name]:
            print(line.format_map(counts))
    if report.warm is not None and report.end is not None:
        print(
            f"memory: {report.warm.resident / MEBIBYTE:.1f} MiB at most in the warm-up, {report.end.resident / MEBIBYTE:.1f} "
            f"at least at the end; {report.warm.blocks:,} and {report.end.blocks:,} blocks"
        )


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("soak", __doc__)
    parser.add_argument("--seconds", metavar="N", type=float, default=120.0, help="how long (default 120)")
    parser.add_argument("--first", metavar="N", type=int, default=0, help="begin with this run (default 0)")
    options = parser.parse_args(arguments)
    if not 0 < options.seconds <= 1_000_000:
        parser.error(f"--seconds is {options.seconds:g}: pass a number above 0, up to 1000000")
    if options.first < 0:
        parser.error(f"--first is {options.first}: pass a number from 0 on")

    def run(seed: int, progress: Progress) -> Report:
        def tell(report: Report, what: str) -> None:
            progress.tell(report.seconds, f"{report.seconds:5.0f}/{options.seconds:.0f} s  {what}")

        return soak(
            seed,
            options.seconds,
            first=options.first,
            tell=tell,
            on_hang=lambda failures: complain("soak", seed, failures),
        )

    return run_program("soak", options, run, show, Report.as_json)


if __name__ == "__main__":
    sys.exit(main())
