"""Erlang/OTP as a peer, where `erl` is installed: a module of `bench/erlang`, compiled and run on one scheduler.

On one, because the others have one thread; where the environment says `all`, it gets what it takes by itself, one for each core.
A process has one machine of Erlang, started when it is first needed: a cell that is measured several times is measured in one and the same, as the
systems of Python are.
"""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Timer

from bench.case import Outcome, WrongResultError

SOURCES = Path(__file__).resolve().parent / "erlang"
DRIVER = SOURCES / "runs.erl"
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


def prepare() -> None:
    """Compile what has changed and start this process's machine: neither belongs to a reading."""
    _compile(BUILD, *sorted(SOURCES.glob("*.erl")))
    _machine(BUILD, os.environ.get(SCHEDULERS))


class Machine:
    """A running `erl` that waits for what to run: see `runs.erl`."""

    def __init__(self, build: Path, *flags: str) -> None:
        command = ["erl", *flags, "-noshell", "-pa", str(build), "-run", DRIVER.stem, "main"]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            # Nobody reads what it would leave in the folder at a crash.
            env={**os.environ, "ERL_CRASH_DUMP_SECONDS": "0"},
        )
        self._hear()

    def run(self, module: str, *arguments: int) -> list[str]:
        """Run a module; the words it has printed.

        Raises:
            WrongResultError: it has failed, or has not ended in time.
        """
        assert self._process.stdin is not None
        # What it has said before it ended is heard all the same.
        with suppress(BrokenPipeError):
            print(module, *arguments, file=self._process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> list[str]:
        assert self._process.stdout is not None
        timer = Timer(PATIENCE, self._process.kill)
        timer.start()
        words: list[str] = []
        try:
            for line in self._process.stdout:
                if line == "end\n":
                    return words
                words += line.split()
        finally:
            timer.cancel()
        self.close()
        said = " ".join(words)[-200:] or "it said nothing"
        raise WrongResultError(f"erl ended with code {self._process.returncode}: {said}")

    def close(self) -> None:
        """Have it end, now that nothing more is to be run; once is enough, and twice does no harm."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(BrokenPipeError):
                    pipe.close()


_machines: dict[tuple[Path, str | None], Machine] = {}
"""The machines of this process, by where their modules are and how many schedulers they have."""


def _machine(build: Path, schedulers: str | None) -> Machine:
    """The machine of this process; of each kind, where there are several."""
    made = _machines.get((build, schedulers))
    if made is None:
        _compile(build, DRIVER)
        # One scheduler, as the others have one thread; and room for a million processes.
        flags = () if schedulers == "all" else ("+S", "1:1")
        made = _machines[build, schedulers] = Machine(build, *flags, "+P", str(MOST_PROCESSES))
    return made


@atexit.register
def end() -> None:
    """End the machines of this process. Who asks next gets another."""
    while _machines:
        _machines.popitem()[1].close()


@cache
def _compile(build: Path, *sources: Path) -> None:
    """Compile those of them that have changed since they were last compiled."""
    build.mkdir(parents=True, exist_ok=True)
    stale = [str(source) for source in sources if _is_stale(source, build / f"{source.stem}.beam")]
    if not stale:
        return
    command = ["erlc", "-o", str(build), *stale]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip()
        raise WrongResultError(f"erlc ended with code {done.returncode}: {said[-200:]}")


def _is_stale(source: Path, compiled: Path) -> bool:
    return not compiled.exists() or compiled.stat().st_mtime <= source.stat().st_mtime


def _output(module: str, *arguments: int) -> list[str]:
    _compile(BUILD, SOURCES / f"{module}.erl")
    try:
        return _machine(BUILD, os.environ.get(SCHEDULERS)).run(module, *arguments)
    except WrongResultError:
        end()
        raise
