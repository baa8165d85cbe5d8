"""A storm over a circus: a troupe with pods of all four kinds, guests who send from threads and tasks, and a monkey that ends pods.

The monkey ends them in every way there is: an exception in a handler, an exit, a normal end, the kubelet's own kill; of processes `kill -9`,
`os._exit` and a real crash, too. In the end the guests leave, everything becomes quiet, all artists must be there again, and the
circus closes; or, in some storms, its main pod is failed, which ends the troupe. Then is compared:

- every ask has exactly one outcome, and what was answered was handled;
- nothing was handled twice, or out of order, over all incarnations; what was refused on the spot was never handled;
- the counts balance, nothing waits; what was accepted and not handled is among the dead, the dropped and those in doubt, and
  nothing that a guest has sent is in doubt where no process has died;
- no process, thread, descriptor or piece of shared memory is left.
"""

# The monkey ends pods as only the kubelet can.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import gc
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from bandstand.errors import BandstandError, PodFailedError
from bandstand.pod import PodPhase, PodStats, ThreadModel, WhenDown, when_down
from bandstand.pod.controller import Controller
from bandstand.pod.restart import PodEnding
from bandstand.testing import Leaks
from tests.soak.books import Fail
from tests.soak.plan import LoopFactory
from tests.soak.pods_cast import Artist, Circus, layout_for
from tests.soak.pods_crowd import Guest, Task, Thread
from tests.soak.pods_ledger import FIRST_ROLE, ROLES, Count, Ledger

PATIENCE = 30.0
"""Seconds within which everything must be quiet, on the busiest machine."""
GENTLE = ("raise", "raise", "exit", "finish", "end")
ROUGH = ("kill", "kill", "vanish", "crash")
"""What processes may suffer besides."""


class Storm:
    """One circus, from its opening to its end."""

    def __init__(self, name: str, seconds: float, loop_factory: LoopFactory) -> None:
        random = Random(name)
        self.name = name
        self.is_over = threading.Event()
        self.is_closing = False
        self.counts: Counter[str] = Counter()
        self.stats = PodStats()
        self._fail: Fail | None = None
        self._seconds = seconds
        self._loop_factory = loop_factory
        self._random = Random(f"{name}/monkey")
        self._pause = random.choice((0.02, 0.1, 0.3))
        # Whether its main pod rides an event loop, beside tasks, or has the thread to itself.
        self._rides = random.random() < 0.6
        self._ends_by_failure = random.random() < 0.25
        weather = random.random()
        # Some have threads in place of processes, and many more restarts; some leave the processes alone. There nothing can be in doubt.
        self._is_tame = weather < 0.2
        self._is_rough = weather >= 0.4
        self._threads = [Thread(self, number) for number in range(random.choice((1, 3, 4)))]
        tasks = range(len(self._threads), len(self._threads) + 3)
        self._tasks = [Task(self, number) for number in tasks] if self._rides else []
        self._troupe: Circus | None = None
        self._pids: set[int] = set()

    @property
    def troupe(self) -> Circus:
        assert self._troupe is not None
        return self._troupe

    @property
    def guests(self) -> list[Guest]:
        return [*self._threads, *self._tasks]

    def fail(self, sentence: str) -> None:
        """Something is wrong."""
        assert self._fail is not None
        self._fail(sentence)

    def reads(self) -> str:
        """Say in a few words what it is."""
        how = "rides" if self._rides else "plays"
        weather = "tame" if self._is_tame else "rough" if self._is_rough else "gentle"
        end = "its main pod fails" if self._ends_by_failure else "closes"
        return f"circus, {how}, {weather}, {len(self.guests)} guests, {end}"

    # -- from opening to end ---------------------------------------------------------------------------------------------------

    def play(self, fail: Fail) -> None:
        """Open, let them in, let the monkey loose, close, and compare."""
        self._fail = fail
        before, shared, children = Leaks.now(), _shared(), _children()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            ledger = Ledger.create(str(Path(folder, "ledger")))
            self._troupe = Circus(layout=layout_for(ledger, is_tame=self._is_tame))
            if self._rides:
                with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                    runner.run(self._ride())
            else:
                self._have_played()
            self._compare(ledger)
            self._troupe = None
            for guest in self.guests:
                guest.forget()
            gc.collect()
            ledger.close()
        self._look_left(before, shared, children)

    async def _ride(self) -> None:
        """On an event loop, with tasks beside the main pod."""
        try:
            async with self.troupe:
                tasks = [asyncio.ensure_future(task.run()) for task in self._tasks]
                await asyncio.to_thread(self._storm)
                await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
                await asyncio.to_thread(self._calm)
        except PodFailedError as error:
            self._hear(error)

    def _have_played(self) -> None:
        """On this thread; everybody else is in others."""
        conductor = threading.Thread(target=self._conduct, name="conductor", daemon=True)
        conductor.start()
        try:
            self.troupe.play(signals=False)
        except PodFailedError as error:
            self._hear(error)
        conductor.join(PATIENCE)
        if conductor.is_alive():
            self.fail("the circus is over, and its conductor is not")

    def _conduct(self) -> None:
        try:
            for name in ROLES:
                self.troupe.phases.until(name, PodPhase.RUNNING, timeout=PATIENCE).blocking()
            self._storm()
            self._calm()
            self.troupe.stop()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self.fail(f"{error!r} came out of the conductor")
            self.troupe.stop()

    def _hear(self, error: PodFailedError) -> None:
        if not self._ends_by_failure or "Mishap" not in str(error):
            self.fail(f"the circus has failed: {error!r}")

    # -- the storm -------------------------------------------------------------------------------------------------------------

    def _storm(self) -> None:
        """Let the guests in and the monkey loose, for so long."""
        for guest in self._threads:
            guest.thread.start()
        end = time.monotonic() + self._seconds
        try:
            while time.monotonic() < end:
                self.is_over.wait(self._random.uniform(0.5, 1.5) * self._pause)
                self._strike()
        finally:
            self.is_over.set()
        for guest in self._threads:
            guest.thread.join(PATIENCE)
            if guest.thread.is_alive():
                self.fail(f"guest {guest.source} does not come back")

    def _strike(self) -> None:
        """End a pod, somehow."""
        name = self._random.choice([name for name in ROLES if name != "director"])
        pod = self.troupe.status(timeout=0.001).pod(name)
        is_process = pod.thread is ThreadModel.PROCESS
        if is_process and not self._is_rough:
            return
        way = self._random.choice((*GENTLE, *ROUGH) if is_process else GENTLE)
        if pod.process is not None:
            self._pids.add(pod.process)
        if self._do(way, name, pod.process):
            self.counts[f"{pod.thread.value} {way}"] += 1

    def _do(self, way: str, name: str, process: int | None) -> bool:
        if way == "kill":
            if process is None:
                return False
            # It may be gone already, and not be reaped: then nothing happens.
            os.kill(process, signal.SIGKILL)
            return True
        if way == "end":
            kubelet = self.troupe.__deployment__.kubelet
            assert kubelet is not None
            kubelet.call(partial(_end, kubelet, name))
            return True
        artist: Artist = when_down(getattr(self.troupe, name), WhenDown.FAIL)
        return artist.stumble.try_send(way)  # type: ignore[arg-type]  # one of its ways

    # -- the calm --------------------------------------------------------------------------------------------------------------

    def _calm(self) -> None:
        """Wait until nothing moves, see that everybody is there, and close."""
        self._wait("something still waits", self._is_quiet)
        for name in ROLES:
            artist: Artist = when_down(getattr(self.troupe, name), WhenDown.WAIT, timeout=PATIENCE)
            try:
                self._pids.add(artist.hello.within(PATIENCE).blocking())
            except BandstandError as error:
                self.fail(f"after the storm {name} is not there: {error!r}; {self.troupe.status()}")
        if self.troupe.health().problems:
            self.fail(f"after the storm its health is {self.troupe.health()}")
        self.is_closing = True
        if self._ends_by_failure:
            self.troupe.director.stumble("raise")
            self._wait("its main pod has failed, and it plays on", lambda: self.troupe.failure is not None)

    def _is_quiet(self) -> bool:
        status, stats = self.troupe.status(), self.troupe.stats()
        are_up = all(pod.phase is PodPhase.RUNNING for pod in status)
        return are_up and stats.waiting == 0 and all(guest.is_settled for guest in self.guests)

    def _wait(self, complaint: str, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_done():
            if time.monotonic() > end:
                self.fail(f"{complaint}: {self.troupe.stats()}\n{self.troupe.status()}")
                return
            time.sleep(0.01)

    # -- comparing -------------------------------------------------------------------------------------------------------------

    def _compare(self, ledger: Ledger) -> None:
        for sentence in ledger.complaints()[:5]:
            self.fail(sentence)
        stats = self.stats = self.troupe.stats()
        if not stats.is_balanced or stats.waiting:
            self.fail(f"the counts do not balance: {stats}")
        # A pod that ends does not wait for what it has sent to a process; the outside has ended when all was quiet.
        outside = self.troupe.__deployment__.caller.runtime.stats()
        if (outside.in_doubt and not self._is_rough) or (stats.in_doubt and self._is_tame):
            self.fail(f"no process has died, and something is in doubt: {stats}, of the outside's {outside}")
        lost: Counter[str] = Counter()
        for guest in self.guests:
            self._compare_guest(guest, ledger)
            lost.update(
                name for number, name in guest.told.items() if not ledger.was_begun(guest.source, number)
            )
        if lost.total() > stats.dead + stats.dropped + stats.in_doubt:
            self.fail(f"{dict(lost)} were accepted and not handled, and the counts are {stats}")
        if ledger.count(Count.DONE) + ledger.count(Count.ANSWERED) > ledger.count(Count.BEGUN):
            self.fail("more was handled than was begun")
        self._sum_up(ledger, lost.total())

    def _compare_guest(self, guest: Guest, ledger: Ledger) -> None:
        if not guest.is_settled:
            self.fail(f"guest {guest.source} has asks without an outcome: {dict(guest.counts)}")
        for number in guest.refused:
            if ledger.was_begun(guest.source, number):
                self.fail(f"guest {guest.source} was refused {number}, which was handled all the same")
                break
        for number in guest.answered:
            if not ledger.was_begun(guest.source, number):
                self.fail(f"guest {guest.source} was answered {number}, which nobody has handled")
                break

    def _sum_up(self, ledger: Ledger, lost: int) -> None:
        for guest in self.guests:
            self.counts.update(guest.counts)
        self.counts.update(
            storms=1,
            begun=ledger.count(Count.BEGUN),
            passed_on=ledger.count(Count.SENT),
            incarnations=ledger.count(Count.BORN),
            lost=lost,
            in_doubt=self.stats.in_doubt,
        )

    def _look_left(self, before: Leaks, shared: set[str], children: set[int]) -> None:
        for sentence in before.since(patience=5.0):
            self.fail(f"left behind: {sentence}")
        if left := _shared() - shared:
            self.fail(f"left behind: shared memory {sorted(left)}")
        if processes := _children() - children:
            self.fail(f"left behind: processes {sorted(processes)}")
        if alive := [pid for pid in self._pids - {os.getpid()} if Path(f"/proc/{pid}").exists()]:
            self.fail(f"left behind: processes {alive} of the storm")


def _end(kubelet: Controller, name: str) -> None:
    """On the kubelet's thread: end a pod at once, if it is there."""
    stage = kubelet.membership.placements.get(name)
    if stage is not None:
        stage.kill(PodEnding(PodPhase.FAILED, "the monkey has ended it"))


def _shared() -> set[str]:
    """What there is in shared memory."""
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def _children() -> set[int]:
    """The processes that are ours, dead ones included that nobody has waited for."""
    tasks = Path("/proc/self/task")
    return {
        int(child)
        for task in (tasks.iterdir() if tasks.exists() else ())
        for child in Path(task, "children").read_text("ascii").split()
    }


assert FIRST_ROLE >= 8, "the crowd needs numbers of its own"
