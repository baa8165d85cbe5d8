"""Runs workloads under valgrind, as many at a time as there are cores, and says how many instructions an operation takes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from bench import runner
from bench.instructions.profile import Profile, read
from bench.instructions.workload import Workload
from bench.system import by_name as system_by_name

ROOT = Path(__file__).resolve().parents[2]
SOURCE = Path(__file__).with_name("switch.c")
LIBRARY = ROOT / "build" / "instructions" / "switch.so"
PATIENCE_S = 600
INSTALL = "on Debian, `apt-get install valgrind` brings it"


class CountError(Exception):
    """A workload could not be counted."""


class NotReadyError(Exception):
    """Nothing can be counted here; the message says what is missing, and how to get it."""


@dataclass(frozen=True)
class Count:
    """What was found: the two profiles whose difference is the figure."""

    workload: Workload
    shorter: Profile
    longer: Profile

    @property
    def figure(self) -> float:
        """Instructions an operation."""
        return (self.longer.total - self.shorter.total) / self.workload.size


def prepare() -> None:
    """See to it that there is all that counting needs.

    Raises:
        NotReadyError: there is not.
    """
    if shutil.which("valgrind") is None:
        raise NotReadyError(f"there is no valgrind: {INSTALL}")
    with Path(sys.executable).open("rb") as file:
        if file.read(4) != b"\x7fELF":
            raise NotReadyError(
                f"{sys.executable} is a script that starts Python: call the real one, as `make` does"
            )
    if refusal := runner.probe([system_by_name("bus")]).get("bus"):
        raise NotReadyError(refusal)
    if not LIBRARY.exists() or LIBRARY.stat().st_mtime < SOURCE.stat().st_mtime:
        compile_switch()


def compile_switch() -> None:
    """Compile what tells valgrind where to begin.

    Raises:
        NotReadyError: there is no compiler, or valgrind came without its headers.
    """
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise NotReadyError("there is no C compiler: on Debian, `apt-get install gcc` brings one")
    LIBRARY.parent.mkdir(parents=True, exist_ok=True)
    # Under another name first: two who compile at once do not load half a file.
    with tempfile.TemporaryDirectory(dir=LIBRARY.parent) as folder:
        fresh = Path(folder, LIBRARY.name)
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(fresh), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            first = next(iter(done.stderr.splitlines()), "the compiler said nothing")
            raise NotReadyError(f"{SOURCE.name} does not compile: {first} (valgrind's headers; {INSTALL})")
        fresh.replace(LIBRARY)


def count(workload: Workload) -> Count:
    """Count one workload.

    Raises:
        CountError: it did not run, or its result was wrong.
    """
    with tempfile.TemporaryDirectory(prefix="counts-") as folder:
        out = Path(folder, "out")
        command = ["valgrind", "-q", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]
        command += [sys.executable, "-m", "bench.instructions.probe", workload.name, str(LIBRARY)]
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment(),
                capture_output=True,
                text=True,
                check=False,
                timeout=PATIENCE_S,
            )
        except subprocess.TimeoutExpired as error:
            raise CountError(f"{workload.name} was not done after {PATIENCE_S} s") from error
        dumps = [Path(folder, f"out.{number}") for number in (1, 2)]
        if done.returncode or not all(dump.exists() for dump in dumps):
            last = (done.stderr.strip() or "it said nothing").splitlines()[-1]
            raise CountError(f"{workload.name} ended with code {done.returncode}: {last}")
        shorter, longer = (read(dump.read_text("utf-8", "replace")) for dump in dumps)
    return Count(workload, shorter, longer)


def environment() -> dict[str, str]:
    """The probe's environment: what changes how Python allocates, hashes or looks for modules is left outside."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**kept, "PYTHONHASHSEED": "0", "BANDSTAND_PURE": "0"}


def count_all(
    workloads: Sequence[Workload], tell: Callable[[int, Count], None], jobs: int | None = None
) -> dict[str, Count]:
    """Count them, and tell of each as it is done: how many are, and the last.

    Raises:
        CountError: the first that could not be counted; the rest is not begun.
    """
    counts: dict[str, Count] = {}
    pool = ThreadPoolExecutor(jobs or os.cpu_count() or 1)
    try:
        for future in as_completed([pool.submit(count, workload) for workload in workloads]):
            done = future.result()
            counts[done.workload.name] = done
            tell(len(counts), done)
    finally:
        pool.shutdown(cancel_futures=True)
    return {workload.name: counts[workload.name] for workload in workloads}
