"""Run the suite in its lanes: compiled and interpreted, uvloop and asyncio, every Python found.

    python tools/lanes.py                                        every lane, as many at once as there are cores
    python tools/lanes.py --jobs 1                               one after the other
    python tools/lanes.py --list                                 name them
    python tools/lanes.py --lane compiled-uvloop -- -k wheel     one lane, with pytest's own arguments
    python tools/lanes.py --lane 3.12-interpreted-asyncio

Each lane is its own process. It tells the suite by environment which mode and loop it must find, and the suite refuses
to start in any other, so a lane cannot pass for another. The last line is the sum over all lanes.

A lane by itself shows what pytest shows. Of several at once each writes to a file of its own, build/lanes/NAME.log, and what
is seen is how far each has come; the file of a lane that has failed is printed whole.

The first lane runs everything, and searches for counterexamples the longest. The one that measures coverage, with the other
mode and the other loop, leaves out what no lane can change and what proves something by sheer numbers. The others are there to
find what else differs between modes, loops and Pythons: they leave out what is slow, too. All draw other examples of each law.
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

# Run as a file, tools/ is on the path and not its parent.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tools.environment import ROOT, VERSIONS, Interpreter, find_interpreters, prepare

_TALLY = re.compile(r"(\d+) (passed|failed|skipped|xfailed|xpassed|errors?|deselected|warnings?)\b")
_CLOSING = re.compile(
    r"^=* ?((?:no tests ran|\d+ (?:passed|failed|skipped|errors?|deselected|xfailed|xpassed)).* in [\d.]+s(?: \([\d:]+\))?)"
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_PERCENT = re.compile(rb"\[ *(\d+)%\]")

LOGS = ROOT / "build" / "lanes"
# How often it is said how far the lanes have come, in seconds.
EVERY = 30


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
        """Which tests it runs, in pytest's words, if not all of them."""
        return "not once and not heavy" if self.has_coverage else "not once and not heavy and not slow"

    @property
    def log(self) -> Path:
        """Where its output goes when it is not the only one."""
        return LOGS / f"{self.name}.log"

    def environment(self) -> dict[str, str]:
        # Tests start hundreds of interpreters. Compiled bytecode is kept for them, whatever the one around thinks of that.
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
    """How one lane went: pytest's closing line and its counts."""

    lane: Lane
    is_good: bool
    closing: str
    tally: Counter[str]
    seconds: float


def plan(others: list[Interpreter]) -> list[Lane]:
    """Return the lanes in order: the four of this environment, then two of each further interpreter."""
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
    """Run one lane; its output goes to a file, or is passed on as it comes."""
    started = time.monotonic()
    python = sys.executable
    if lane.interpreter:
        python = str(lane.interpreter.folder / "bin" / "python")
    if log is None:
        _header(lane.name)
    colour = ["--color=yes"] if log is None and sys.stdout.isatty() else []
    code, output = _stream(lane.command(python, arguments), lane.environment(), colour, log)
    closing, tally = read_closing(output)
    if lane.has_coverage and not arguments and code == 0:
        code, _ = _stream([python, "-m", "coverage", "report"], lane.environment(), [], log)
        closing += "" if code == 0 else "; branch coverage below the gate"
    return Outcome(lane, code == 0, closing, tally, time.monotonic() - started)


def run_together(lanes: list[Lane], arguments: list[str], jobs: int) -> Iterator[Outcome]:
    """Run several lanes, some at a time, and say how far they have come."""
    LOGS.mkdir(parents=True, exist_ok=True)
    for lane in lanes:
        lane.log.unlink(missing_ok=True)
    # The longest first, so that none of them is the last one left.
    longest_first = sorted(lanes, key=lambda lane: not (lane.is_first or lane.has_coverage))
    with ThreadPoolExecutor(jobs) as pool:
        pending: set[Future[Outcome]] = {
            pool.submit(run, lane, arguments, lane.log) for lane in longest_first
        }
        while pending:
            done, pending = wait(pending, timeout=EVERY, return_when=FIRST_COMPLETED)
            if not done:
                print(f"   {', '.join(filter(None, map(progress, lanes)))}", flush=True)
            for each in done:
                outcome = each.result()
                verdict = "pass" if outcome.is_good else "FAIL"
                print(f"-- {outcome.lane.name}: {verdict}, {outcome.closing}", flush=True)
                if not outcome.is_good:
                    _header(outcome.lane.name)
                    print(outcome.lane.log.read_text("utf-8", "replace"), flush=True)
                yield outcome


def progress(lane: Lane) -> str:
    """How far a lane has come; nothing if it has not begun, or is over."""
    try:
        text = lane.log.read_bytes()
    except FileNotFoundError:
        return ""
    found = _PERCENT.findall(text)
    return "" if not found or found[-1] == b"100" else f"{lane.name} {int(found[-1])} %"


def read_closing(output: str) -> tuple[str, Counter[str]]:
    """Find pytest's closing line and count what it says; without one the lane ended before its tests did."""
    for line in reversed(_COLOUR.sub("", output).splitlines()):
        if match := _CLOSING.match(line):
            found = _TALLY.findall(match[1])
            return match[1], Counter(
                {word.removesuffix("s") if word[0] in "ew" else word: int(n) for n, word in found}
            )
    return "ended before pytest could count", Counter()


def closing_line(outcomes: list[Outcome]) -> str:
    """Sum the lanes up in one line of pytest's own form."""
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total.update(outcome.tally)
    broken = sum(1 for outcome in outcomes if not outcome.is_good)
    parts = [f"{total['passed']} passed", f"{total['failed']} failed"]
    parts += [f"{total[word]} {word}" for word in ("error", "skipped", "xfailed") if total[word]]
    # Of all lanes together, though some ran at once.
    seconds = sum(outcome.seconds for outcome in outcomes)
    return f"{', '.join(parts)} in {seconds:.0f}s over {len(outcomes)} lanes" + (
        f", {broken} of them bad" if broken else ""
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
            # Chunks, not lines: pytest's dots are the progress.
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
        print(f"{one.lane.name:<{width}}  {verdict:<6}  {one.seconds:7.1f}  {one.closing}")
    for version in missing:
        print(f"{'Python ' + version:<{width}}  not found on this machine, so not tested")
    print(closing_line(outcomes), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the suite in its lanes.")
    parser.add_argument("--lane", metavar="NAME", action="append", help="only this lane (may be repeated)")
    parser.add_argument(
        "--jobs", type=int, default=os.cpu_count() or 1, help="how many lanes at once (default: one a core)"
    )
    parser.add_argument("--list", action="store_true", help="name the lanes and stop")
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
        parser.error(f"no lane {', '.join(unknown)}; the lanes are {', '.join(names)}")
    chosen = [lane for lane in lanes if not options.lane or lane.name in options.lane]
    # Before any of them runs: they build in the same folders.
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
