"""Kill a node with a journal many times, at every kind of record, while clients use it: see `tests.bus.durable_chaos`.

Examples:
    python -m tests.soak.kill_run                          a thousand kills, with a new seed
    python -m tests.soak.kill_run --rounds 100 --seed 7    the same decisions again
    python -m tests.soak.kill_run --json                   the result for a program

Every forty kills the books are compared, and a new journal begins. The folder of a run that fails is kept. Ends with 0; with 1 and the seed if something is
wrong; with 2 for a wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from pathlib import Path
from random import Random

from tests.bus.durable_chaos import Chaos, Report, draw_plans
from tests.soak.console import Progress, parser_of, run_program

ROUNDS_OF_A_JOURNAL = 40


def run_rounds(seed: int, rounds: int, progress: Progress) -> Report:
    """Kill a node as often as that, and return what was found; stop at the first journal with failures."""
    report = Report(seed)

    def tell(part: Report) -> None:
        kills = report.kills + part.kills
        # Those are beyond the plan: a command that kills its node is tried again.
        done, seconds = kills.total() - kills["poisoned"], report.seconds + part.seconds
        requests = report.requests + part.requests
        progress.tell(seconds, f"{seconds:5.0f} s  {done:,}/{rounds:,} kills, {requests:,} commands")

    plans = draw_plans(Random(seed), rounds)
    for start in range(0, rounds, ROUNDS_OF_A_JOURNAL):
        folder = Path(tempfile.mkdtemp(prefix="kill-"))
        run = Chaos(folder, seed + start, plans[start : start + ROUNDS_OF_A_JOURNAL], tell)
        report.add(asyncio.run(run.play()))
        if report.failures:
            report.failures.append(f"the journal, the ledger and the output of the node are in {folder}")
            break
        shutil.rmtree(folder)
    return report


def show(report: Report) -> None:
    """Print what was found, for people."""
    kills = ", ".join(f"{name} {count}" for name, count in sorted(report.kills.items()))
    answers = ", ".join(f"{name} {count:,}" for name, count in sorted(report.answers.items()))
    print(
        f"{report.kills.total():,} kills in {report.seconds:.0f} s ({kills}); {report.requests:,} commands ({answers}); {report.executions:,} "
        f"executions; {report.records:,} records in {report.pages:,} pages with {report.checkpoints} checkpoints"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("soak.kill_run", __doc__)
    parser.add_argument("--rounds", metavar="N", type=int, default=1000, help="how many kills (default 1000)")
    options = parser.parse_args(arguments)
    if not 1 <= options.rounds <= 1_000_000:
        parser.error(f"--rounds is {options.rounds}: pass a number from 1 to 1000000")

    def run(seed: int, progress: Progress) -> Report:
        return run_rounds(seed, options.rounds, progress)

    # Not asdict(): before Python 3.12 it makes a Counter of pairs out of a Counter.
    return run_program("soak.kill_run", options, run, show, vars)


if __name__ == "__main__":
    sys.exit(main())
