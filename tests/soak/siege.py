"""Besiege a real node: clients that are killed, capabilities that crash, requests said twice and in no order.

Examples:
    python -m tests.soak.siege                              a million requests, with a seed of its own
    python -m tests.soak.siege --requests 10000000          ten million
    python -m tests.soak.siege --seed 7 --requests 50000    the same decisions again
    python -m tests.soak.siege --json                       what was found, for a program

The node is a process of its own, and so is every client. In the end:

- each request of a client that lived has had exactly one answer, on the connection by which it came; of the others nothing is known, and
  nothing is in flight;
- the books of the node balance, its clients are gone, and it has no more descriptors open than before the first came;
- it holds no more memory than after the first fifth of the requests, but for the allocator's own raggedness;
- if it remembers what it has answered (its statistics have a field `repeated`), nothing was handled twice.

Decisions come from the seed; processes and the clock decide the rest. Ends with 0; with 1 if something is wrong, a sentence and the seed; with 2 for a
wrong option; with 130 if it was interrupted.
"""

# ruff: noqa: T201  # a program that speaks to a terminal

from __future__ import annotations

import json
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from bandstand import _build_mode
from tests.soak.memory import MEBIBYTE
from tests.soak.process import PATIENCE, ROOT, NodeProcess, balance_of
from tests.soak.siege_cast import MOST

NODE = "tests.soak.siege_node"
"""What serves the node."""
CLIENTS = 3
SHARE = 20_000
"""How many requests a client makes before it goes home by itself."""
KILLED = 0.5
"""How many of the clients are killed."""
LIVES = (0.05, 1.5)
"""Seconds after which one is killed, from when it was started: the first can hardly have asked anything."""
WARM_UP = 0.2
"""The share of the requests after which memory must not grow any more."""
GROWTH = 8 * MEBIBYTE
"""What may be resident beyond that: at a million requests, less than nine bytes for each."""
JUDGED_FROM = 200_000
"""Requests of a run from which on its memory is judged: shorter ones are all warm-up."""


@dataclass
class Report:
    """What a siege has found."""

    seed: int
    mode: str = field(default_factory=_build_mode.mode)
    requests: int = 0
    """As the node has counted them."""
    seconds: float = 0.0
    clients: int = 0
    killed: int = 0
    seen: Counter[str] = field(default_factory=Counter[str])
    """What those have seen who were not killed."""
    remembers: bool = False
    """Whether the node remembers what it has answered, so that nothing may be handled twice."""
    handled_again: int = 0
    resident_mib: list[float] = field(default_factory=list[float])
    failures: list[str] = field(default_factory=list[str])


class Client:
    """A besieger, from outside."""

    def __init__(self, path: str, seed: str, first: int, random: Random) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-m", "tests.soak.siege_client", path, seed, str(first), str(SHARE)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        is_doomed = random.random() < KILLED
        self._doom = time.monotonic() + random.uniform(*LIVES) if is_doomed else float("inf")

    def has_ended(self) -> bool:
        """Whether it is gone; it is killed if its time has come."""
        if time.monotonic() >= self._doom:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(PATIENCE)
        return self._process.poll() is not None

    def send_home(self) -> None:
        """Tell it to come to an end."""
        self._process.send_signal(signal.SIGTERM)

    def report(self, report: Report) -> None:
        """Wait for its end, and add what it has seen."""
        try:
            out, _ = self._process.communicate(timeout=2 * PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.communicate()
            report.failures.append("a client does not come to an end")
            return
        report.clients += 1
        if self._process.returncode == -signal.SIGKILL:
            report.killed += 1
            return
        if self._process.returncode == -signal.SIGTERM:
            # It was told to go before it could hear of it.
            return
        try:
            told: dict[str, Any] = json.loads(out)
        except ValueError:
            report.failures.append(f"a client ended with {self._process.returncode}, and said {out[:200]!r}")
            return
        report.seen.update(told["seen"])
        report.failures += [f"a client says: {sentence}" for sentence in told["failures"]]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


class Siege:
    """One node, and those around it."""

    def __init__(self, seed: int, requests: int, tell: Callable[[Report], None]) -> None:
        self.report = Report(seed)
        self._requests = requests
        self._tell = tell
        self._random = Random(seed)
        self._clients: list[Client] = []
        self._next = 0
        self._warm: list[int] = []
        self._late: list[int] = []

    def lay(self) -> Report:
        """From the first client to the last."""
        begin = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="siege-") as folder:
            node = NodeProcess(NODE, Path(folder), is_strict=False)
            try:
                node.ask("Syscall.Ping")
                before = node.descriptors()
                while self._goes_on(node):
                    self.report.seconds = time.monotonic() - begin
                    self._tell(self.report)
                    time.sleep(0.05)
                for client in self._clients:
                    client.send_home()
                for client in self._clients:
                    client.report(self.report)
                self._look_back(node, before)
                if (code := node.stop()) != 0:
                    self.report.failures.append(f"told to stop, the node ended with {code}")
            except (OSError, ValueError) as error:
                alive = "lives" if node.is_alive else "has died"
                self.report.failures.append(f"the node {alive}, and {error!r} came out\n{node.said[-2000:]}")
            finally:
                for client in self._clients:
                    client.kill()
                node.kill()
            self.report.failures += node.complaints()
        self.report.seconds = time.monotonic() - begin
        return self.report

    def _goes_on(self, node: NodeProcess) -> bool:
        """Whether there is more to ask; see to it that somebody does."""
        ended = [client for client in self._clients if client.has_ended()]
        for client in ended:
            self._clients.remove(client)
            client.report(self.report)
        while len(self._clients) < CLIENTS and self._next + SHARE <= MOST:
            seed = f"{self.report.seed}/{self._next}"
            self._clients.append(Client(node.path, seed, self._next, self._random))
            self._next += SHARE
        self._measure(node)
        return not self.report.failures and self.report.requests < self._requests and bool(self._clients)

    def _measure(self, node: NodeProcess) -> None:
        self.report.requests = node.ask("Syscall.Stats")["requests"]["admitted"]
        share = self.report.requests / self._requests
        if WARM_UP / 2 <= share < WARM_UP:
            self._warm.append(node.resident())
        elif share >= 0.9:
            self._late.append(node.resident())

    # -- comparing ---------------------------------------------------------------------------------------------------------------------

    def _look_back(self, node: NodeProcess, before: int) -> None:
        report = self.report
        end = time.monotonic() + PATIENCE
        while True:
            stats = node.ask("Syscall.Stats")
            requests: dict[str, Any] = stats["requests"]
            # The one in flight is this question, and so is the client.
            is_quiet = stats["clients"] == 1 and requests["inFlight"] == 1
            is_tidy = node.descriptors() <= before
            if (is_quiet and is_tidy) or time.monotonic() > end:
                break
            time.sleep(0.02)
        if not is_quiet:
            report.failures.append(f"all have gone, and the node says {stats}")
        if not is_tidy:
            report.failures.append(f"{node.descriptors()} descriptors are open; there were {before}")
        if lost := balance_of(requests):
            report.failures.append(f"the books do not account for {lost} requests: {requests}")
        if report.seen["answered"] != report.seen["asked"]:
            report.failures.append(f"clients who lived have seen {dict(report.seen)}")
        self._compare_handled(node, stats)
        self._compare_memory()

    def _compare_handled(self, node: NodeProcess, stats: dict[str, Any]) -> None:
        """That nothing was handled twice, if the node remembers."""
        report = self.report
        sums = node.ask("Ledger.Sum")
        report.handled_again = sums["again"]
        report.remembers = "repeated" in stats or "repeated" in stats["requests"]
        if not report.remembers:
            return
        if sums["again"] or report.seen["handled again"]:
            report.failures.append(
                f"{sums['again']} requests were handled more than once, one {sums['most']} times"
            )
        spared = sum(
            count
            for name in ("repeated", "joined")
            for count in (stats.get(name, 0), stats["requests"].get(name, 0))
        )
        if spared < report.seen["again"]:
            report.failures.append(
                f"{report.seen['again']} were said again, and the node has noticed {spared}"
            )

    def _compare_memory(self) -> None:
        if not self._warm or not self._late:
            return
        # The most of then against the least of now: a leak grows past that, a large batch does not.
        warm, late = max(self._warm), min(self._late[-20:])
        self.report.resident_mib = [round(each / MEBIBYTE, 1) for each in (warm, late)]
        if self._requests >= JUDGED_FROM and late - warm > GROWTH:
            self.report.failures.append(
                f"{(late - warm) / MEBIBYTE:.1f} MiB more are resident than after the warm-up; {GROWTH / MEBIBYTE:.0f} would pass"
            )


def besiege(seed: int, requests: int, tell: Callable[[Report], None] = lambda _report: None) -> Report:
    """Besiege a node until it was asked so often."""
    return Siege(seed, requests, tell).lay()


# --- the program -------------------------------------------------------------------------------------------------------------------------


def parse(arguments: list[str] | None) -> Namespace:
    """Read the options; a wrong one ends the program with a sentence and code 2."""
    parser = ArgumentParser(
        prog="python -m tests.soak.siege", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--requests", metavar="N", type=int, default=1_000_000, help="how many (default 1000000)"
    )
    parser.add_argument(
        "--seed", metavar="N", type=int, help="repeat the decisions of a run (default: a new one)"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    options = parser.parse_args(arguments)
    if not 1 <= options.requests <= MOST // 2:
        parser.error(f"--requests is {options.requests}: pass a number from 1 to {MOST // 2}")
    if options.seed is None:
        options.seed = secrets.randbelow(1_000_000)
    return options


class Progress:
    """One line on stderr that changes on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, requests: int) -> None:
        self._requests = requests
        self._is_terminal = sys.stderr.isatty()
        self._next = 0.0

    def tell(self, report: Report) -> None:
        if report.seconds < self._next:
            return
        self._next = report.seconds + (0.2 if self._is_terminal else 10)
        line = (
            f"{report.seconds:5.0f} s  {report.requests:,}/{self._requests:,} requests  "
            f"{report.clients} clients, {report.killed} of them killed"
        )
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()

    def close(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def show(report: Report) -> None:
    """Print what was found, for people."""
    seen = report.seen
    crashes = sum(count for name, count in seen.items() if name == "error Sys.ActorCrash")
    print(
        f"{report.requests:,} requests in {report.seconds:.0f} s, {report.mode}: {report.clients} clients, {report.killed} of them killed; those who "
        f"lived have asked {seen['asked']:,} times, {seen['again']:,} of them once more, and had {seen['answered']:,} answers, {crashes:,} of them crashes"
    )
    once = f"{report.handled_again or 'nothing'} handled twice"
    if not report.remembers:
        once += ", by a node that does not remember what it has answered"
    memory = " and ".join(f"{each} MiB" for each in report.resident_mib) or "not measured"
    print(f"{once}; memory after the warm-up and in the end: {memory}")


def main(arguments: list[str] | None = None) -> int:
    options = parse(arguments)
    print(f"seed {options.seed}", file=sys.stderr)
    progress = Progress(options.requests)
    try:
        report = besiege(options.seed, options.requests, progress.tell)
    except KeyboardInterrupt:
        print(f"interrupted; seed {options.seed}", file=sys.stderr)
        return 130
    finally:
        progress.close()
    if options.json:
        # Not asdict(): before Python 3.12 it makes a Counter of pairs out of a Counter.
        print(json.dumps(vars(report), indent=2))
    else:
        show(report)
    if report.failures:
        for failure in report.failures[:10]:
            print(f"siege: {failure}", file=sys.stderr)
        print(f"siege: failed; seed {options.seed}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
