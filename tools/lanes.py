"""Run the suite in its lanes: compiled and interpreted, uvloop and asyncio, every Python found.

    python tools/lanes.py                                        compiled on uvloop in full, and interpreted on asyncio
    python tools/lanes.py --others                               these two, and the short lanes of the other Pythons
    python tools/lanes.py --all                                  every lane of every Python found
    python tools/lanes.py --list                                 print the names of all lanes
    python tools/lanes.py --lane compiled-uvloop -- -k wheel     one lane, with arguments for pytest
    python tools/lanes.py --lane 3.12-interpreted-asyncio

A lane is one way to run the suite. Environment variables tell the suite which mode and event loop the lane demands, and it refuses to
start in any other. The last line is the total over the lanes.

One chosen lane is one process and prints the output of pytest. Otherwise as many processes run at once as there are cores (`--jobs`).
The two long lanes are split into parts, each with its own process, so that all cores have work until the end. Each process
writes to build/lanes/NAME.log; the tool prints the progress, and the log of each process that failed.

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
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

# If this runs as a script, tools/ is on the path, but not its parent.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.environment import ROOT, VERSIONS, Interpreter, find_interpreters, prepare

_TALLY = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?|deselected|warnings?)\b")
_SUMMARY = re.compile(
    r"^=* ?((?:no tests ran|\d+ (?:passed|failed|skipped|errors?|deselected|xfailed|xpassed)).* in [\d.]+s(?: \([\d:]+\))?)"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_COVERAGE = re.compile(r"^TOTAL .* ([\d.]+)%$", re.MULTILINE)
_PERCENT = re.compile(rb"\[ *(\d+)%\]")

TESTS = ROOT / "tests"
LOGS = ROOT / "build" / "lanes"
COVERAGE = ROOT / "build" / "coverage"
# How often the progress is printed, in seconds.
PROGRESS_S = 30
PROGRESS_IN_TERMINAL_S = 1


@dataclass(frozen=True)
class Part:
    """The tests that one process of a long lane runs.

    `weight` is roughly its share of the time in percent. The heaviest part starts first, and the progress of the lane is the weighted
    mean; a wrong weight changes nothing else.
    """

    name: str
    folders: tuple[str, ...]
    weight: int


PARTS = (
    Part("pod", ("pod",), 20),
    Part("bus", ("bus",), 15),
    Part("core", ("core", "laws"), 13),
    Part("actor", ("actor", "scope", "supervision"), 13),
    Part("bench", ("bench", "examples"), 12),
    Part("architecture", ("architecture", "parity", "types"), 11),
    Part("cli", ("cli", "docs", "testing"), 9),
)
REST_WEIGHT = 7


def parts() -> tuple[Part, ...]:
    """Return the parts of a long lane; together they have every folder with tests exactly once."""
    listed = {folder for part in PARTS for folder in part.folders}
    rest = sorted(path.name for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
    return (*PARTS, Part("rest", tuple(name for name in rest if name not in listed), REST_WEIGHT))


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

    @property
    def is_long(self) -> bool:
        return self.is_first or self.has_coverage

    @property
    def python(self) -> str:
        return str(self.interpreter.folder / "bin" / "python") if self.interpreter else sys.executable

    @property
    def choice(self) -> list[str]:
        """The marker expression that selects its tests, if it does not run all of them."""
        if self.is_first:
            return []
        return [
            "-m",
            "not once and not heavy" if self.has_coverage else "not once and not heavy and not slow",
        ]

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
class Job:
    """One process of a lane: the whole lane, or one part of it."""

    lane: Lane
    part: Part | None = None

    @property
    def name(self) -> str:
        return f"{self.lane.name}.{self.part.name}" if self.part else self.lane.name

    @property
    def weight(self) -> int:
        # A short lane takes about as long as a small part.
        return self.part.weight if self.part else 10

    @property
    def log(self) -> Path:
        return LOGS / f"{self.name}.log"

    @property
    def coverage(self) -> Path | None:
        """The file that its coverage is written to, if it measures any."""
        return COVERAGE.with_name(f"coverage-{self.name}") if self.lane.has_coverage else None

    def command(self, arguments: list[str]) -> list[str]:
        """Return its command. With arguments for pytest, the lane selects no tests and measures no coverage."""
        python = [self.lane.python, "-m"]
        folders = [f"tests/{folder}" for folder in self.part.folders] if self.part else []
        if arguments:
            return [*python, "pytest", *arguments]
        if self.coverage:
            python += ["coverage", "run", f"--data-file={self.coverage}", "-m"]
        return [*python, "pytest", *self.lane.choice, *folders]


@dataclass(frozen=True)
class Outcome:
    """The result of a lane or of one process of it: a summary and the counts of pytest."""

    lane: Lane
    is_good: bool
    summary: str
    tally: Counter[str]
    seconds: float


def plan(others: list[Interpreter]) -> list[Lane]:
    """Return all lanes in order: four for this environment, then two for each other interpreter."""
    lanes = [
        Lane("compiled", "uvloop", is_first=True),
        Lane("compiled", "asyncio"),
        Lane("interpreted", "asyncio", has_coverage=True),
        Lane("interpreted", "uvloop"),
    ]
    for interpreter in others:
        lanes += [Lane("compiled", "uvloop", interpreter), Lane("interpreted", "asyncio", interpreter)]
    return lanes


def chosen_lanes(lanes: list[Lane], *, is_all: bool = False, has_others: bool = False) -> list[Lane]:
    """Return the lanes that run if none is named: the two long ones, or more."""
    return [lane for lane in lanes if is_all or lane.is_long or (has_others and lane.interpreter)]


def jobs_of(lanes: list[Lane], arguments: list[str]) -> list[Job]:
    """Return the processes of these lanes, the ones that take longest first.

    Arguments may name files, which not every part has: with arguments, each lane is one process.
    """
    jobs: list[Job] = []
    for lane in lanes:
        jobs += [Job(lane, part) for part in parts()] if lane.is_long and not arguments else [Job(lane)]
    return sorted(jobs, key=lambda job: -job.weight)


def run_alone(lane: Lane, arguments: list[str]) -> Outcome:
    """Run a lane as one process, whose output goes to standard output."""
    print(f"\n---- lane {lane.name}", flush=True)
    job = Job(lane)
    outcome = _run(job, arguments, None)
    return outcome if arguments else _with_coverage([job], outcome, None)


def run_together(lanes: list[Lane], arguments: list[str], processes: int) -> Iterator[Outcome]:
    """Run several lanes in so many processes at a time, and print their progress."""
    LOGS.mkdir(parents=True, exist_ok=True)
    jobs = jobs_of(lanes, arguments)
    for job in jobs:
        job.log.unlink(missing_ok=True)
    done: dict[Job, Outcome] = {}
    display = Display()
    pool = ThreadPoolExecutor(processes)
    try:
        running = {pool.submit(_run, job, arguments, job.log): job for job in jobs}
        while running:
            finished, _ = wait(running, timeout=display.interval, return_when=FIRST_COMPLETED)
            for future in finished:
                job = running.pop(future)
                done[job] = future.result()
                if not done[job].is_good:
                    display.print_log(job.name, job.log)
                own = [each for each in jobs if each.lane == job.lane]
                if all(each in done for each in own):
                    outcome = _joined([done[each] for each in own])
                    if not arguments:
                        outcome = _with_coverage(own, outcome, display)
                    verdict = "pass" if outcome.is_good else "FAIL"
                    display.print(f"-- {job.lane.name}: {verdict}, {outcome.summary}")
                    yield outcome
            display.show([progress(lane, jobs) for lane in lanes])
    finally:
        # After an interruption, no further process starts.
        pool.shutdown(cancel_futures=True)


def progress(lane: Lane, jobs: list[Job]) -> str:
    """Return the progress of a lane; an empty string if it has not started, or is done."""
    percents = {job: _percent(job.log) for job in jobs if job.lane == lane and job.log.exists()}
    weights = sum(job.weight for job in jobs if job.lane == lane)
    percent = sum(job.weight * percent for job, percent in percents.items()) // weights
    return f"{lane.name} {percent} %" if percents and percent < 100 else ""


def _percent(log: Path) -> int:
    found = _PERCENT.findall(log.read_bytes())
    return int(found[-1]) if found else 0


class Display:
    """Prints the progress and the results. In a terminal, the progress is one line that is overwritten."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._started = self._shown = time.monotonic()
        self.interval = PROGRESS_IN_TERMINAL_S if self._is_terminal else PROGRESS_S

    def print(self, text: str) -> None:
        print(f"\r\x1b[K{text}" if self._is_terminal else text, flush=True)

    def print_log(self, name: str, log: Path) -> None:
        self.print(f"\n---- {name} {'-' * max(0, 100 - len(name))}\n{log.read_text('utf-8', 'replace')}")

    def show(self, lanes: list[str]) -> None:
        """Print the progress of lanes, if it is time to."""
        now = time.monotonic()
        text = f"   {now - self._started:.0f} s: {', '.join(filter(None, lanes))}"
        if not any(lanes):
            return
        if self._is_terminal:
            print(f"\r\x1b[K{text}", end="", flush=True)
        elif now >= self._shown + self.interval:
            self._shown = now
            print(text, flush=True)


def read_summary(output: str) -> tuple[str, Counter[str]]:
    """Find the summary line of pytest and parse its counts. A lane that crashed has none."""
    for line in reversed(_COLOUR.sub("", output).splitlines()):
        if match := _SUMMARY.match(line):
            found = _TALLY.findall(match[1])
            return match[1], Counter(
                {word.removesuffix("s") if word[0] in "ew" else word: int(n) for n, word in found}
            )
    return "pytest did not finish", Counter()


def total_line(outcomes: list[Outcome], seconds: float) -> str:
    """Return the total over all lanes, in the form of a summary line of pytest."""
    counts = counted(sum((outcome.tally for outcome in outcomes), Counter[str]()))
    broken = sum(1 for outcome in outcomes if not outcome.is_good)
    return f"{counts} in {seconds:.0f}s over {len(outcomes)} lanes" + (
        f"; failed lanes: {broken}" if broken else ""
    )


def counted(tally: Counter[str]) -> str:
    """Return the counts as pytest writes them."""
    parts = [f"{tally['passed']} passed", f"{tally['failed']} failed"]
    return ", ".join(
        parts + [f"{tally[word]} {word}" for word in ("error", "skipped", "xfailed") if tally[word]]
    )


def _run(job: Job, arguments: list[str], log: Path | None) -> Outcome:
    started = time.monotonic()
    command = job.command(arguments)
    if log is None and sys.stdout.isatty():
        command.append("--color=yes")
    code, output = _stream(command, job.lane.environment(), log)
    summary, tally = read_summary(output)
    return Outcome(job.lane, code == 0, summary, tally, time.monotonic() - started)


def _joined(outcomes: list[Outcome]) -> Outcome:
    """Return the result of a lane whose parts have these results."""
    if len(outcomes) == 1:
        return outcomes[0]
    tally = sum((outcome.tally for outcome in outcomes), Counter[str]())
    seconds = sum(outcome.seconds for outcome in outcomes)
    unfinished = sum(1 for outcome in outcomes if not outcome.tally)
    summary = f"{counted(tally)} in {seconds:.0f}s of {len(outcomes)} processes" + (
        f"; {unfinished} did not finish" if unfinished else ""
    )
    return Outcome(outcomes[0].lane, all(outcome.is_good for outcome in outcomes), summary, tally, seconds)


def _with_coverage(jobs: list[Job], outcome: Outcome, display: Display | None) -> Outcome:
    """Check the coverage of a lane that passed and measures it."""
    lane = outcome.lane
    if not lane.has_coverage or not outcome.is_good:
        return outcome
    coverage = [lane.python, "-m", "coverage"]
    files = [str(job.coverage) for job in jobs]
    log = None if display is None else LOGS / f"{lane.name}.coverage.log"
    if log:
        log.unlink(missing_ok=True)
    code, output = _stream([*coverage, "combine", "--quiet", *files], lane.environment(), log)
    if code == 0:
        code, output = _stream([*coverage, "report"], lane.environment(), log)
    if code and display and log:
        display.print_log(f"{lane.name}: coverage", log)
    found = _COVERAGE.findall(output)
    shown = f"coverage {found[-1]} %" if found else "no coverage"
    summary = f"{outcome.summary}; {shown}" + (", which is too low" if found and code else "")
    return replace(outcome, is_good=code == 0, summary=summary)


def _stream(command: list[str], environment: dict[str, str], log: Path | None) -> tuple[int, str]:
    """Run a command, and copy its output to a file or to standard output while it runs."""
    output = bytearray()
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        with nullcontext(sys.stdout.buffer) if log is None else log.open("ab") as sink:
            # Chunks, not lines: pytest prints dots as progress.
            while chunk := os.read(process.stdout.fileno(), 65536):
                output += chunk
                sink.write(chunk)
                sink.flush()
    return process.returncode, output.decode(errors="replace")


def _table(outcomes: list[Outcome], missing: list[str], seconds: float) -> None:
    width = max(len(outcome.lane.name) for outcome in outcomes)
    print(f"\n{'lane':<{width}}  result  seconds  pytest")
    for one in outcomes:
        verdict = "pass" if one.is_good else "FAIL"
        print(f"{one.lane.name:<{width}}  {verdict:<6}  {one.seconds:7.1f}  {one.summary}")
    for version in missing:
        print(f"{'Python ' + version:<{width}}  not tested: not found on this machine")
    print(total_line(outcomes, seconds), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the suite in its lanes.")
    choice = parser.add_mutually_exclusive_group()
    choice.add_argument("--all", action="store_true", help="run every lane of every Python found")
    choice.add_argument("--others", action="store_true", help="run also the short lanes of the other Pythons")
    choice.add_argument(
        "--lane", metavar="NAME", action="append", help="run only this lane (can be repeated)"
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=os.cpu_count() or 1,
        help="how many processes run at once (default: one per core)",
    )
    parser.add_argument("--list", action="store_true", help="print the names of the lanes and exit")
    parser.add_argument("pytest", nargs="*", help="after --: arguments for pytest")
    options = parser.parse_args()

    found = find_interpreters()
    own = "{}.{}".format(*sys.version_info[:2])
    lanes = plan([interpreter for version, interpreter in found.items() if version != own])
    names = [lane.name for lane in lanes]
    if options.list:
        print("\n".join(names))
        return 0
    if unknown := [name for name in options.lane or () if name not in names]:
        parser.error(f"unknown lane {', '.join(unknown)}; the lanes are {', '.join(names)}")
    if options.lane:
        chosen = [lane for lane in lanes if lane.name in options.lane]
    else:
        chosen = chosen_lanes(lanes, is_all=options.all, has_others=options.others)
    missing = [version for version in VERSIONS if version not in found and version != own]
    started = time.monotonic()
    # Before any lane runs: the interpreters build in the same folders.
    for interpreter in {lane.interpreter: None for lane in chosen if lane.interpreter}:
        prepare(interpreter.path, interpreter.folder, "test")
    if len(chosen) == 1:
        outcomes = [run_alone(chosen[0], options.pytest)]
    else:
        outcomes = sorted(
            run_together(chosen, options.pytest, options.jobs), key=lambda each: names.index(each.lane.name)
        )
    _table(outcomes, missing if options.all or options.others else [], time.monotonic() - started)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
