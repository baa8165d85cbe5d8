"""Run the suite in its lanes: compiled and interpreted, uvloop and asyncio, every Python found.

    python tools/lanes.py                                        every lane
    python tools/lanes.py --list                                 name them
    python tools/lanes.py --lane compiled-uvloop -- -k wheel     one lane, with pytest's own arguments
    python tools/lanes.py --lane 3.12-interpreted-asyncio

Each lane is its own process. It tells the suite by environment which mode and loop it must find, and the suite refuses
to start in any other, so a lane cannot pass for another. The last line is the sum over all lanes.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from collections import Counter
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
        pytest = ["pytest", *([] if self.is_first or arguments else ["-m", "not once"]), *arguments]
        measured = ["coverage", "run", "-m"] if self.has_coverage and not arguments else []
        return [python, "-m", *measured, *pytest]

    def environment(self) -> dict[str, str]:
        # Tests start hundreds of interpreters. Compiled bytecode is kept for them, whatever the one around thinks of that.
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {
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


def run(lane: Lane, arguments: list[str]) -> Outcome:
    """Run one lane, passing its output on as it comes."""
    started = time.monotonic()
    python = sys.executable
    if lane.interpreter:
        python = str(prepare(lane.interpreter.path, lane.interpreter.folder, "test"))
    _header(lane.name)
    colour = ["--color=yes"] if sys.stdout.isatty() else []
    code, output = _stream(lane.command(python, arguments), lane.environment(), colour)
    closing, tally = read_closing(output)
    if lane.has_coverage and not arguments and code == 0:
        code, _ = _stream([python, "-m", "coverage", "report"], lane.environment(), [])
        closing += "" if code == 0 else "; branch coverage below the gate"
    return Outcome(lane, code == 0, closing, tally, time.monotonic() - started)


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
    seconds = sum(outcome.seconds for outcome in outcomes)
    return f"{', '.join(parts)} in {seconds:.0f}s over {len(outcomes)} lanes" + (
        f", {broken} of them bad" if broken else ""
    )


def _stream(command: list[str], environment: dict[str, str], extra: list[str]) -> tuple[int, str]:
    output = bytearray()
    with subprocess.Popen(
        [*command, *extra], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        assert process.stdout is not None
        # Chunks, not lines: pytest's dots are the progress.
        while chunk := os.read(process.stdout.fileno(), 65536):
            output += chunk
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()
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
    outcomes = [run(lane, options.pytest) for lane in chosen]
    _table(outcomes, [] if options.lane else missing)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
