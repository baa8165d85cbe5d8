"""Count the instructions of fixed workloads, and compare with what is recorded.

Examples:
    python -m bench.instructions                                     count all, a minute or two
    python -m bench.instructions --workload ask --workload create    only these
    python -m bench.instructions --show ping-pong                    where its instructions go, function by function
    python -m bench.instructions --show ping-pong --top 60           more of them
    python -m bench.instructions --record                            record the figures of this machine
    python -m bench.instructions --json build/counts.json            the same figures for a program

The table goes to stdout, progress to stderr. Ends with 0; with 1 if a workload takes more instructions than it may, or fails;
with 2 for a wrong option, and where nothing can be counted: it needs valgrind (on Debian, `apt-get install valgrind`).
"""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from pathlib import Path

from bench.instructions import counter, record, site, table, verdict
from bench.instructions.counter import Count, CountError, NotReadyError
from bench.instructions.workload import WORKLOADS, YARDSTICK, Workload, by_name

TOP = 30


def parse(arguments: list[str] | None) -> tuple[Namespace, list[Workload]]:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m bench.instructions",
        description=__doc__,
        epilog="workloads:\n" + "\n".join(f"  {workload.name:<16} {workload.what}" for workload in WORKLOADS),
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument("--workload", metavar="NAME", action="append", help="only this one (may be repeated)")
    parser.add_argument(
        "--show", metavar="NAME", help="where the instructions of this one go; nothing is compared"
    )
    parser.add_argument(
        "--top", metavar="N", type=int, default=TOP, help=f"how many functions (default {TOP})"
    )
    parser.add_argument("--record", action="store_true", help="record the figures instead of comparing them")
    parser.add_argument("--json", metavar="FILE", type=Path, help="write the figures there as well")
    parser.add_argument("--ready", action="store_true", help="only say whether anything can be counted here")
    options = parser.parse_args(arguments)
    if not 1 <= options.top <= 10_000:
        parser.error(f"--top is {options.top}: pass a number from 1 to 10000")
    if options.json is not None and not options.json.parent.is_dir():
        parser.error(f"--json is {str(options.json)!r}: there is no such folder")
    try:
        if options.show is not None:
            return options, [by_name(options.show)]
        chosen = {by_name(name).name for name in options.workload or [each.name for each in WORKLOADS]}
    except LookupError as error:
        parser.error(str(error.args[0]))
    # Always: at another site nothing can be compared without it.
    chosen.add(YARDSTICK)
    return options, [workload for workload in WORKLOADS if workload.name in chosen]


def count(workloads: list[Workload]) -> dict[str, Count]:
    """Count them, with progress on stderr."""
    is_terminal = sys.stderr.isatty()

    def tell(done: int, last: Count) -> None:
        text = f"{done}/{len(workloads)}  {last.workload.name} {last.figure:,.0f}"
        print(
            f"\r\x1b[K{text}" if is_terminal else text,
            end="" if is_terminal else "\n",
            file=sys.stderr,
            flush=True,
        )

    try:
        return counter.count_all(workloads, tell)
    finally:
        if is_terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def recount_worse(counts: dict[str, Count]) -> dict[str, Count]:
    """Count again what takes more than it may, and keep the lower count.

    On a busy machine a workload is interrupted, and time that passes in the middle of an operation makes the loop do more. That can
    only add instructions, so a real regression shows in both counts.
    """
    figures = {name: count.figure for name, count in counts.items()}
    worse = verdict.compare(figures, record.load(), site.here()).having("worse")
    if not worse:
        return counts
    print("counted again, as a busy machine adds instructions:", file=sys.stderr)
    again = count([by_name(each.name) for each in worse])
    return {
        name: min(first, again.get(name, first), key=lambda each: each.figure)
        for name, first in counts.items()
    }


def compare(options: Namespace, counts: dict[str, Count]) -> int:
    """Record the figures, or print what is to be said of them; the exit code."""
    figures = {name: count.figure for name, count in counts.items()}
    where, records = site.here(), record.load()
    compared = verdict.compare(figures, records, where)
    print(table.render(compared))
    if options.json is not None:
        options.json.write_text(json.dumps(table.as_json(compared, where), indent=2) + "\n", "utf-8")
    if options.record:
        record.save(record.with_figures(records, where, figures))
        print(f"recorded in bench/instructions/{record.PATH.name}")
        return 0
    return 1 if compared.having("worse") else 0


def main(arguments: list[str] | None = None) -> int:
    options, workloads = parse(arguments)
    try:
        counter.prepare()
        if options.ready:
            return 0
        counts = count(workloads)
        if options.show is None:
            counts = recount_worse(counts)
    except NotReadyError as error:
        print(f"nothing can be counted here: {error}", file=sys.stderr)
        return 2
    except CountError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: no table", file=sys.stderr)
        return 130
    if options.show is not None:
        print(table.functions(counts[options.show], options.top))
        return 0
    return compare(options, counts)


if __name__ == "__main__":
    # As with Ctrl-C: no probe is begun any more.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
