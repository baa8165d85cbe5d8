"""Ask a real node many times: clients are killed, capabilities crash, requests are repeated and come in no order.

Examples:
    python -m tests.soak.node_run                              a million requests, with a new seed
    python -m tests.soak.node_run --requests 10000000          ten million
    python -m tests.soak.node_run --seed 7 --requests 50000    the same decisions again
    python -m tests.soak.node_run --json                       the result for a program

The node is a process of its own, and so is every client. In the end:

- each request of a client that was not killed has had exactly one answer, on its connection, and nothing is in flight;
- the counters of the node balance, its clients are gone, and it has no more descriptors open than before the first came;
- it holds no more memory than after the first fifth of the requests, within a tolerance;
- nothing was handled twice.

Decisions come from the seed; processes and the clock decide the rest. Ends with 0; with 1 and the seed if something is wrong; with 2 for a
wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from bandstand import _build_mode
from tests.soak.console import Progress, parser_of, run_program
from tests.soak.memory import MEBIBYTE
from tests.soak.node_process import PATIENCE, ROOT, NodeProcess
from tests.soak.node_program import MOST

NODE = "tests.soak.node_program"
CLIENTS = 3
SHARE = 20_000
"""How many requests a client makes before it ends."""
KILLED = 0.5
"""How many of the clients are killed."""
LIVES = (0.05, 1.5)
"""Seconds after which one is killed, from its start: the first can hardly have asked anything."""
WARM_UP = 0.2
"""The share of the requests after which memory must not grow any more."""
GROWTH = 8 * MEBIBYTE
"""How much more may be resident then: at a million requests, less than nine bytes for each."""
JUDGED_FROM = 200_000
"""Requests from which on memory is compared: shorter runs are all warm-up."""


@dataclass
class Report:
    """What a run has found."""

    seed: int
    mode: str = field(default_factory=_build_mode.mode)
    requests: int = 0
    """As the node has counted them."""
    seconds: float = 0.0
    clients: int = 0
    killed: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])
    """What the clients have seen that were not killed."""
    resident_mib: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])


class Client:
    """A client process."""

    def __init__(self, path: str, seed: str, first: int, random: Random) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.soak.node_client", path, seed, str(first), str(SHARE)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        is_killed = random.random() < KILLED
        self._kill_at = time.monotonic() + random.uniform(*LIVES) if is_killed else float("inf")

    def has_ended(self) -> bool:
        """Return whether it has ended; kill it if its time has come."""
        if time.monotonic() >= self._kill_at:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE)
        return self._process.poll() is not None

    def ask_to_end(self) -> None:
        self._process.send_signal(signal.SIGTERM)

    def report(self, report: Report) -> None:
        """Wait for its end, and add what it has seen."""
        try:
            out, _ = self._process.communicate(timeout=2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            report.failures.append("a client does not end")
            return
        report.clients += 1
        code = self._process.returncode
        report.killed += code == -signal.SIGKILL
        # With SIGTERM it was asked to end before it could handle the signal.
        if code in {-signal.SIGKILL, -signal.SIGTERM}:
            return
        try:
            told: dict[str, Any] = json.loads(out)
        except ValueError:
            report.failures.append(f"a client ended with {code}, and said {out[:200]!r}")
            return
        report.seen.update(told["seen"])
        report.failures += [f"a client says: {sentence}" for sentence in told["failures"]]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class NodeRun:
    """One node, and its clients."""

    def __init__(
        self, seed: int, requests: int, tell: Callable[[Report], None] = lambda _report: None
    ) -> None:
        self.report = Report(seed)
        self._requests = requests
        self._tell = tell
        self._random = Random(seed)
        self._clients: list[Client] = []
        self._next = 0
        self._warm: list[int] = []
        self._late: list[int] = []

    def play(self) -> Report:
        """Run until the node was asked often enough, and compare."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="node-") as folder:
            node = NodeProcess(NODE, Path(folder), is_strict=False)
            try:
                node.ask("Syscall.Ping")
                before = node.descriptors()
                while self._continue(node):
                    self.report.seconds = time.monotonic() - begin
                    self._tell(self.report)
                    time.sleep(0.05)
                for client in self._clients:
                    client.ask_to_end()
                for client in self._clients:
                    client.report(self.report)
                self._compare(node, before)
                if (code := node.stop()) != 0:
                    self.report.failures.append(f"asked to stop, the node ended with {code}")
            except (OSError, ValueError) as error:
                alive = "lives" if node.is_alive else "has died"
                self.report.failures.append(
                    f"the node {alive}, and {error!r} was raised\n{node.said[-2000:]}"
                )
            finally:
                for client in self._clients:
                    client.kill()
                node.kill()
            self.report.failures += node.complaints()
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _continue(self, node: NodeProcess) -> bool:
        """Start clients in place of those that have ended; return whether there is more to ask."""
        for client in [client for client in self._clients if client.has_ended()]:
            self._clients.remove(client)
            client.report(self.report)
        while len(self._clients) < CLIENTS and self._next + SHARE <= MOST:
            seed = f"{self.report.seed}/{self._next}"
            self._clients.append(Client(node.path, seed, self._next, self._random))
            self._next += SHARE
        self.report.requests = node.ask("Syscall.Stats")["requests"]["admitted"]
        share = self.report.requests / self._requests
        if WARM_UP / 2 <= share < WARM_UP:
            self._warm.append(node.resident())
        elif share >= 0.9:
            self._late.append(node.resident())
        return not self.report.failures and self.report.requests < self._requests and bool(self._clients)

    def _compare(self, node: NodeProcess, before: int) -> None:
        report = self.report
        report.failures += node.check_idle(before)
        if report.seen["answered"] != report.seen["asked"]:
            report.failures.append(f"clients that were not killed have seen {dict(report.seen)}")
        self.compare_handled(node.ask("Counter.Total"), node.ask("Syscall.Stats")["requests"])
        self.compare_memory(self._warm, self._late)

    def compare_handled(self, totals: dict[str, int], requests: dict[str, Any]) -> None:
        """Check that nothing was handled twice."""
        seen = self.report.seen
        if totals["again"] or seen["handled again"]:
            self.report.failures.append(
                f"{totals['again']} requests were handled more than once, one {totals['most']} times"
            )
        noticed = requests["repeated"] + requests["joined"]
        if noticed < seen["again"]:
            self.report.failures.append(f"{seen['again']} were repeated, and the node has noticed {noticed}")

    def compare_memory(self, warm: list[int], late: list[int]) -> None:
        """Check that memory is flat: a leak grows past the largest batch of the warm-up."""
        if not warm or not late:
            return
        most, least = max(warm), min(late[-20:])
        self.report.resident_mib = [round(each / MEBIBYTE, 1) for each in (most, least)]
        if self._requests >= JUDGED_FROM and least - most > GROWTH:
            self.report.failures.append(
                f"{(least - most) / MEBIBYTE:.1f} MiB more are resident than after the warm-up; {GROWTH / MEBIBYTE:.0f} would pass"
            )


def show(report: Report) -> None:
    """Print what was found, for people."""
    seen = report.seen
    memory = " and ".join(f"{each} MiB" for each in report.resident_mib) or "not measured"
    print(
        f"{report.requests:,} requests in {report.seconds:.0f} s, {report.mode}: {report.clients} clients, {report.killed} of them killed; the "
        f"others have asked {seen['asked']:,} times, {seen['again']:,} of them again, and had {seen['answered']:,} answers, "
        f"{seen['error Sys.ActorCrash']:,} of them crashes; memory after the warm-up and at the end: {memory}"
    )


def main(arguments: list[str] | None = None) -> int:
    parser = parser_of("soak.node_run", __doc__)
    parser.add_argument(
        "--requests", metavar="N", type=int, default=1_000_000, help="how many (default 1000000)"
    )
    options = parser.parse_args(arguments)
    if not 1 <= options.requests <= MOST // 2:
        parser.error(f"--requests is {options.requests}: pass a number from 1 to {MOST // 2}")

    def run(seed: int, progress: Progress) -> Report:
        def tell(report: Report) -> None:
            done = f"{report.requests:,}/{options.requests:,} requests"
            progress.tell(
                report.seconds,
                f"{report.seconds:5.0f} s  {done}  {report.clients} clients, {report.killed} of them killed",
            )

        return NodeRun(seed, options.requests, tell).play()

    # Not asdict(): before Python 3.12 it makes a Counter of pairs out of a Counter.
    return run_program("node_run", options, run, show, vars)


if __name__ == "__main__":
    sys.exit(main())
