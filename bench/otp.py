"""Erlang/OTP as a peer, where `erl` is installed: a module of `bench/erlang`, compiled and run on one scheduler.

On one, because the others have one thread; where the environment says `all`, it gets what it takes by itself, one for each core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from bench.case import Outcome, WrongResultError

SOURCES = Path(__file__).resolve().parent / "erlang"
BUILD = SOURCES.parent.parent / "build" / "erlang"
PATIENCE = 240
MOST_PROCESSES = 1 << 21
SCHEDULERS = "BENCH_ERLANG_SCHEDULERS"
"""The variable that says `all` where it may have more than one."""


def refusal() -> str | None:
    """Say why Erlang cannot be measured here; None if it can."""
    missing = [name for name in ("erl", "erlc") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not found; Debian has it in erlang-base" if missing else None


def run(module: str, *arguments: int, sent: int | None = None) -> Outcome:
    """Run `module:main/1` with these arguments; it prints the nanoseconds and how many operations there were.

    Names and numbers may follow, which are the details. As many operations must there be as were sent: the first argument,
    where nobody says otherwise.
    """
    total, operations, *details = _output(module, *arguments)
    return Outcome(
        total=int(total),
        operations=int(operations),
        sent=arguments[0] if sent is None else sent,
        handled=int(operations),
        details=dict(zip(details[::2], map(float, details[1::2]), strict=True)),
    )


def times(module: str, *arguments: int) -> tuple[int, list[int]]:
    """Run `module:main/1` with these arguments; it prints how many operations went right, and the nanoseconds of each."""
    handled, *nanoseconds = map(int, _output(module, *arguments))
    return handled, nanoseconds


def _output(module: str, *arguments: int) -> list[str]:
    BUILD.mkdir(parents=True, exist_ok=True)
    _said("erlc", "-o", str(BUILD), str(SOURCES / f"{module}.erl"))
    # One scheduler, as the others have one thread; and room for a million processes.
    schedulers = () if os.environ.get(SCHEDULERS) == "all" else ("+S", "1:1")
    room = ("+P", str(MOST_PROCESSES))
    said = _said(
        "erl", *schedulers, *room, "-noshell", "-pa", str(BUILD), "-run", module, "main", *map(str, arguments)
    )
    return said.split()


def _said(*command: str) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if result.returncode:
        raise WrongResultError(
            f"{command[0]} ended with code {result.returncode}: {result.stderr.strip()[-200:]}"
        )
    return result.stdout
