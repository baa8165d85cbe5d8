"""Run the suite in its lanes: compiled and interpreted, uvloop and asyncio, every Python found.

    python tools/lanes.py                                        all lanes, as many at once as there are cores
    python tools/lanes.py --jobs 1                               one after the other
    python tools/lanes.py --list                                 print their names
    python tools/lanes.py --lane compiled-uvloop -- -k wheel     one lane, with arguments for pytest
    python tools/lanes.py --lane 3.12-interpreted-asyncio

Each lane is a process. Environment variables tell the suite which mode and event loop the lane demands, and the suite refuses to
start in any other. The last line is the total over all lanes.

A single lane prints the output of pytest. Lanes that run in parallel write to build/lanes/NAME.log; the tool prints their
progress, and the whole log of a lane that failed.

The first lane runs everything, with the largest number of hypothesis examples. The lane that measures coverage, with the other mode
and the other event loop, skips tests marked `once` and `heavy`. The remaining lanes look for further differences between modes,
event loops and Pythons, and skip `slow` tests as well. Each lane draws different hypothesis examples.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

# If this runs as a script, tools/ is on the path, but not its parent.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.environment import ROOT, VERSIONS, Interpreter, find_interpreters, prepare

_TALLY = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?|deselected|warnings?)\b")
_SUMMARY = re.compile(
    r"^=* ?((?:no tests ran|\d+ (?:passed|failed|skipped|errors?|deselected|xfailed|xpassed)).* in [\d.]+s(?: \([\d:]+\))?)"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PERCENT = re.compile(rb"\[ *(\d+)%\]")

LOGS = ROOT / "build" / "lanes"
# How often the progress of the lanes is printed, in seconds.
PROGRESS_S = 30


@dataclass(frozen=True)
class Lane:
    """One way to run the suite. `interpreter` is None for the environment this runs in."""

    mode: str
    loop: str
    interpreter: Interpreter | None = None
    is_first: bool = False
    has_coverage: bool = False

    @property
    def name(self) -> str:
        prefix = f"{self.interpreter.version}-" if self.interpreter else ""
        return f"{prefix}{self.mode}-{self.loop}"

    def command(self, python: str, arguments: list[str]) -> list[str]:
        chosen = [] if self.is_first or arguments else ["-m", self.choice]
        pytest = ["pytest", *chosen, *arguments]
        measured = ["coverage", "run", "-m"] if self.has_coverage and not arguments else []
        return [python, "-m", *measured, *pytest]

    @property
    def choice(self) -> str:
        """The marker expression that selects its tests, if it does not run all of them."""
        return "not once and not heavy" if self.has_coverage else "not once and not heavy and not slow"

    @property
    def log(self) -> Path:
        """The file for its output when several lanes run in parallel."""
        return LOGS / f"{self.name}.log"

    def environment(self) -> dict[str, str]:
        # Tests start hundreds of interpreters, which share compiled bytecode even if this process does not write any.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {
            "BANDSTAND_TEST_PROFILE": "suite" if self.is_first else "brief",
            **inherited,
            "PYTHONPYCACHEPREFIX": str(ROOT / "build" / "bytecode"),
            "BANDSTAND_PURE": "1" if self.mode == "interpreted" else "0",
            "BANDSTAND_TEST_MODE": self.mode,
            "BANDSTAND_TEST_LOOP": self.loop,
            "PYTHONUNBUFFERED": "1",
        }


@dataclass(frozen=True)
class Outcome:
    """The result of one lane: the summary line of pytest and its counts."""

    lane: Lane
    is_good: bool
    summary: str
    tally: Counter[str]
    seconds: float


def plan(others: list[Interpreter]) -> list[Lane]:
    """Return the lanes in order: four for this environment, then two for each other interpreter."""
    lanes = [
        Lane("compiled", "uvloop", is_first=True),
        Lane("compiled", "asyncio"),
        Lane("interpreted", "asyncio", has_coverage=True),
        Lane("interpreted", "uvloop"),
    ]
    for interpreter in others:
        lanes += [Lane("compiled", "uvloop", interpreter), Lane("interpreted", "asyncio", interpreter)]
    return lanes


def run(lane: Lane, arguments: list[str], log: Path | None = None) -> Outcome:
    """Run one lane; its output goes to a file or to standard output."""
    started = time.monotonic()
    python = sys.executable
    if lane.interpreter:
        python = str(lane.interpreter.folder / "bin" / "python")
    if log is None:
        _header(lane.name)
    colour = ["--color=yes"] if log is None and sys.stdout.isatty() else []
    code, output = _stream(lane.command(python, arguments), lane.environment(), colour, log)
    summary, tally = read_summary(output)
    if lane.has_coverage and not arguments and code == 0:
        code, _ = _stream([python, "-m", "coverage", "report"], lane.environment(), [], log)
        summary += "" if code == 0 else "; branch coverage is too low"
    return Outcome(lane, code == 0, summary, tally, time.monotonic() - started)


def run_together(lanes: list[Lane], arguments: list[str], jobs: int) -> Iterator[Outcome]:
    """Run several lanes in parallel, and print their progress."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for lane in lanes:
        lane.log.unlink(missing_ok=True)
    # The longest lanes first, so that they do not run alone at the end.
    longest_first = sorted(lanes, key=lambda lane: not (lane.is_first or lane.has_coverage))
    with ThreadPoolExecutor(jobs) as pool:
        pending: set[Future[Outcome]] = {
            pool.submit(run, lane, arguments, lane.log) for lane in longest_first
        }
        while pending:
            done, pending = wait(pending, timeout=PROGRESS_S, return_when=FIRST_COMPLETED)
            if not done:
                print(f"   {', '.join(filter(None, map(progress, lanes)))}", flush=True)
            for each in done:
                outcome = each.result()
                verdict = "pass" if outcome.is_good else "FAIL"
                print(f"-- {outcome.lane.name}: {verdict}, {outcome.summary}", flush=True)
                if not outcome.is_good:
                    _header(outcome.lane.name)
                    print(outcome.lane.log.read_text("utf-8", "replace"), flush=True)
                yield outcome


def progress(lane: Lane) -> str:
    """Return the progress of a lane; an empty string if it has not started, or is done."""
    try:
        text = lane.log.read_bytes()
    except FileNotFoundError:
        return ""
    found = _PERCENT.findall(text)
    return "" if not found or found[-1] == b"100" else f"{lane.name} {int(found[-1])} %"


def read_summary(output: str) -> tuple[str, Counter[str]]:
    """Find the summary line of pytest and parse its counts. A lane that crashed has none."""
    for line in reversed(_COLOUR.sub("", output).splitlines()):
        if match := _SUMMARY.match(line):
            found = _TALLY.findall(match[1])
            return match[1], Counter(
                {word.removesuffix("s") if word[0] in "ew" else word: int(n) for n, word in found}
            )
    return "pytest did not finish", Counter()


def total_line(outcomes: list[Outcome]) -> str:
    """Return the total over all lanes, in the form of a summary line of pytest."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.tally)
    broken = sum(1 for outcome in outcomes if not outcome.is_good)
    parts = [f"{total['passed']} passed", f"{total['failed']} failed"]
    parts += [f"{total[word]} {word}" for word in ("error", "skipped", "xfailed") if total[word]]
    # The sum over all lanes, although some ran in parallel.
    seconds = sum(outcome.seconds for outcome in outcomes)
    return f"{', '.join(parts)} in {seconds:.0f}s over {len(outcomes)} lanes" + (
        f"; failed lanes: {broken}" if broken else ""
    )


def _stream(
    command: list[str], environment: dict[str, str], extra: list[str], log: Path | None
) -> tuple[int, str]:
    output = bytearray()
    with subprocess.Popen(
        [*command, *extra], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        with nullcontext(sys.stdout.buffer) if log is None else log.open("ab") as sink:
            # Chunks, not lines: pytest prints dots as progress.
            while chunk := os.read(process.stdout.fileno(), 65536):
                output += chunk
                sink.write(chunk)
                sink.flush()
    return process.returncode, output.decode(errors="replace")


def _header(text: str) -> None:
    print(f"\n---- lane {text} {'-' * max(0, 100 - len(text))}", flush=True)


def _table(outcomes: list[Outcome], missing: list[str]) -> None:
    width = max(len(outcome.lane.name) for outcome in outcomes)
    print(f"\n{'lane':<{width}}  result  seconds  pytest")
    for one in outcomes:
        verdict = "pass" if one.is_good else "FAIL"
        print(f"{one.lane.name:<{width}}  {verdict:<6}  {one.seconds:7.1f}  {one.summary}")
    for version in missing:
        print(f"{'Python ' + version:<{width}}  not tested: not found on this machine")
    print(total_line(outcomes), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the suite in its lanes.")
    parser.add_argument(
        "--lane", metavar="NAME", action="append", help="run only this lane (can be repeated)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="how many lanes run in parallel (default: one per core)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the lanes and exit")
    parser.add_argument("pytest", nargs="*", help="after --: arguments for pytest")
    options = parser.parse_args()

    found = find_interpreters()
    own = "{}.{}".format(*sys.version_info[:2])
    lanes = plan([interpreter for version, interpreter in found.items() if version != own])
    missing = [version for version in VERSIONS if version not in found and version != own]
    names = [lane.name for lane in lanes]
    if options.list:
        print("\n".join(names))
        return 0
    if unknown := [name for name in options.lane or () if name not in names]:
        parser.error(f"unknown lane {', '.join(unknown)}; the lanes are {', '.join(names)}")
    chosen = [lane for lane in lanes if not options.lane or lane.name in options.lane]
    # Before any lane runs: the interpreters build in the same folders.
    for interpreter in {lane.interpreter: None for lane in chosen if lane.interpreter}:
        prepare(interpreter.path, interpreter.folder, "test")
    if len(chosen) == 1 or options.jobs < 2:
        outcomes = [run(lane, options.pytest) for lane in chosen]
    else:
        outcomes = sorted(
            run_together(chosen, options.pytest, options.jobs), key=lambda each: names.index(each.lane.name)
        )
    _table(outcomes, [] if options.lane else missing)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
