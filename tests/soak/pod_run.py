"""One run of pods: a deployment with pods of all four kinds, threads and tasks that send to them, and pods that are ended at random.

They are ended in every way there is: an exception in a handler, an exit, a normal end, or by the controller; processes also by `kill -9`,
`os._exit` and a real crash. In the end the senders stop, everything becomes idle, all actors must be there again, and the deployment is
stopped; or its main pod fails, which ends it. Then is compared:

- every ask has exactly one outcome, and what was answered was handled;
- nothing was handled twice or out of order, over all restarts, and what was refused was never handled;
- the counters balance; what was accepted and not handled is counted as dead, dropped or in doubt, and nothing is in doubt where no
  process has died;
- no process, thread, descriptor or shared memory is left.
"""

# It ends pods as only the controller can.
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
from tests.soak.checks import Fail
from tests.soak.loop_run import LoopFactory
from tests.soak.pod_actors import Deployment, Echo, layout_for
from tests.soak.pod_record import FIRST_ROLE, ROLES, Count, Record
from tests.soak.pod_senders import Sender, Task, Thread

PATIENCE = 30.0
"""Seconds within which everything must be idle, on the busiest machine."""
ANY_POD = ("raise", "raise", "exit", "finish", "end")
PROCESS_ONLY = ("kill", "kill", "vanish", "crash")
"""How processes are ended besides."""


class PodRun:
    """One deployment, from its start to its end."""

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
        self._random = Random(f"{name}/run")
        self._pause = random.choice((0.02, 0.1, 0.3))
        # Whether its main pod runs on an event loop beside tasks, or has the thread to itself.
        self._is_async = random.random() < 0.6
        self._ends_by_failure = random.random() < 0.25
        kind = random.random()
        # Some have threads instead of processes, and many more restarts; some do not end processes. There, nothing can be in doubt.
        self._has_no_processes = kind < 0.2
        self._kills_processes = kind >= 0.4
        self._threads = [Thread(self, number) for number in range(random.choice((1, 3, 4)))]
        tasks = range(len(self._threads), len(self._threads) + 3)
        self._tasks = [Task(self, number) for number in tasks] if self._is_async else []
        self._deployment: Deployment | None = None
        self._pids: set[int] = set()

    @property
    def deployment(self) -> Deployment:
        assert self._deployment is not None
        return self._deployment

    @property
    def senders(self) -> list[Sender]:
        return [*self._threads, *self._tasks]

    def fail(self, sentence: str) -> None:
        """Something is wrong."""
        assert self._fail is not None
        self._fail(sentence)

    def __str__(self) -> str:
        how = "async with" if self._is_async else "play()"
        processes = "are killed" if self._kills_processes else "live"
        if self._has_no_processes:
            processes = "are threads"
        end = "its main pod fails" if self._ends_by_failure else "is stopped"
        return f"deployment by {how}, {len(self.senders)} senders, processes {processes}, {end}"

    # -- from start to end ---------------------------------------------------------------------------------------------------

    def play(self, fail: Fail) -> None:
        """Start, send, end pods, stop, and compare."""
        self._fail = fail
        before, shared, children = Leaks.now(), _shared(), _children()
        with tempfile.TemporaryDirectory(prefix="soak-") as folder:
            record = Record.create(str(Path(folder, "record")))
            self._deployment = Deployment(layout=layout_for(record, has_no_processes=self._has_no_processes))
            if self._is_async:
                with asyncio.Runner(loop_factory=self._loop_factory) as runner:
                    runner.run(self._run_async())
            else:
                self._run_blocking()
            self._compare(record)
            self._deployment = None
            for sender in self.senders:
                sender.forget()
            gc.collect()
            record.close()
        self._check_left(before, shared, children)

    async def _run_async(self) -> None:
        """Run the main pod on an event loop, beside tasks."""
        try:
            async with self.deployment:
                tasks = [asyncio.ensure_future(task.run()) for task in self._tasks]
                await asyncio.to_thread(self._send_and_fail)
                await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
                await asyncio.to_thread(self._check_up)
        except PodFailedError as error:
            self._expect(error)

    def _run_blocking(self) -> None:
        """Run the main pod on this thread; all others are on threads of their own."""
        controller = threading.Thread(target=self._control, name="controller", daemon=True)
        controller.start()
        try:
            self.deployment.play(signals=False)
        except PodFailedError as error:
            self._expect(error)
        controller.join(PATIENCE)
        if controller.is_alive():
            self.fail("the deployment has ended, and the controlling thread has not")

    def _control(self) -> None:
        try:
            for name in ROLES:
                self.deployment.phases.until(name, PodPhase.RUNNING, timeout=PATIENCE).blocking()
            self._send_and_fail()
            self._check_up()
            self.deployment.stop()
        except Exception as error:  # noqa: BLE001  # whatever it is, it is a finding
            self.fail(f"{error!r} was raised in the controlling thread")
            self.deployment.stop()

    def _expect(self, error: PodFailedError) -> None:
        if not self._ends_by_failure or "IntentionalError" not in str(error):
            self.fail(f"the deployment has failed: {error!r}")

    # -- sending and failing -------------------------------------------------------------------------------------------------------------

    def _send_and_fail(self) -> None:
        """Send and end pods for the time of the run."""
        for sender in self._threads:
            sender.thread.start()
        end = time.monotonic() + self._seconds
        try:
            while time.monotonic() < end:
                self.is_over.wait(self._random.uniform(0.5, 1.5) * self._pause)
                self._end_pod()
        finally:
            self.is_over.set()
        for sender in self._threads:
            sender.thread.join(PATIENCE)
            if sender.thread.is_alive():
                self.fail(f"sender {sender.source} does not end")

    def _end_pod(self) -> None:
        """End a pod in a random way."""
        name = self._random.choice([name for name in ROLES if name != "main"])
        pod = self.deployment.status(timeout=0.001).pod(name)
        is_process = pod.thread is ThreadModel.PROCESS
        if is_process and not self._kills_processes:
            return
        way = self._random.choice((*ANY_POD, *PROCESS_ONLY) if is_process else ANY_POD)
        if pod.process is not None:
            self._pids.add(pod.process)
        if self._do(way, name, pod.process):
            self.counts[f"{pod.thread.value} {way}"] += 1

    def _do(self, way: str, name: str, process: int | None) -> bool:
        if way == "kill":
            if process is None:
                return False
            # If it has ended already and was not waited for, nothing happens.
            os.kill(process, signal.SIGKILL)
            return True
        if way == "end":
            kubelet = self.deployment.__deployment__.kubelet
            assert kubelet is not None
            kubelet.call(partial(_end, kubelet, name))
            return True
        actor: Echo = when_down(getattr(self.deployment, name), WhenDown.FAIL)
        return actor.end_by.try_send(way)  # type: ignore[arg-type]  # one of its ways

    # -- after the failures --------------------------------------------------------------------------------------------------------------

    def _check_up(self) -> None:
        """Wait until all is idle, check that all actors are there, and end."""
        self._wait("it does not become idle", self._is_quiet)
        for name in ROLES:
            actor: Echo = when_down(getattr(self.deployment, name), WhenDown.WAIT, timeout=PATIENCE)
            try:
                self._pids.add(actor.hello.within(PATIENCE).blocking())
            except BandstandError as error:
                self.fail(f"after the run {name} is not there: {error!r}; {self.deployment.status()}")
        if self.deployment.health().problems:
            self.fail(f"after the run its health is {self.deployment.health()}")
        self.is_closing = True
        if self._ends_by_failure:
            self.deployment.main.end_by("raise")
            self._wait(
                "its main pod has failed, and the deployment goes on",
                lambda: self.deployment.failure is not None,
            )

    def _is_quiet(self) -> bool:
        status, stats = self.deployment.status(), self.deployment.stats()
        are_up = all(pod.phase is PodPhase.RUNNING for pod in status)
        return are_up and stats.waiting == 0 and all(sender.is_settled for sender in self.senders)

    def _wait(self, complaint: str, is_done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not is_done():
            if time.monotonic() > end:
                self.fail(f"{complaint}: {self.deployment.stats()}\n{self.deployment.status()}")
                return
            time.sleep(0.01)

    # -- comparing -------------------------------------------------------------------------------------------------------------

    def _compare(self, record: Record) -> None:
        for sentence in record.complaints()[:5]:
            self.fail(sentence)
        stats = self.stats = self.deployment.stats()
        if not stats.is_balanced or stats.waiting:
            self.fail(f"the counts do not balance: {stats}")
        # A pod that ends does not wait for what it has sent to a process. Senders outside pods have waited.
        outside = self.deployment.__deployment__.caller.runtime.stats()
        if (outside.in_doubt and not self._kills_processes) or (stats.in_doubt and self._has_no_processes):
            self.fail(f"no process has died, and something is in doubt: {stats}, outside pods {outside}")
        lost: Counter[str] = Counter()
        for sender in self.senders:
            self._compare_sender(sender, record)
            lost.update(
                name for number, name in sender.sent.items() if not record.was_begun(sender.source, number)
            )
        if lost.total() > stats.dead + stats.dropped + stats.in_doubt:
            self.fail(f"{dict(lost)} were accepted and not handled, and the counts are {stats}")
        if record.count(Count.DONE) + record.count(Count.ANSWERED) > record.count(Count.BEGUN):
            self.fail("more was handled than was begun")
        self._add_counts(record, lost.total())

    def _compare_sender(self, sender: Sender, record: Record) -> None:
        if not sender.is_settled:
            self.fail(f"sender {sender.source} has asks without an outcome: {dict(sender.counts)}")
        for number in sender.refused:
            if record.was_begun(sender.source, number):
                self.fail(f"sender {sender.source} was refused {number}, which was handled nevertheless")
                break
        for number in sender.answered:
            if not record.was_begun(sender.source, number):
                self.fail(f"sender {sender.source} was answered {number}, which was not handled")
                break

    def _add_counts(self, record: Record, lost: int) -> None:
        for sender in self.senders:
            self.counts.update(sender.counts)
        self.counts.update(
            pod_runs=1,
            begun=record.count(Count.BEGUN),
            passed_on=record.count(Count.SENT),
            starts=record.count(Count.STARTED),
            lost=lost,
            in_doubt=self.stats.in_doubt,
        )

    def _check_left(self, before: Leaks, shared: set[str], children: set[int]) -> None:
        for sentence in before.since(patience=5.0):
            self.fail(f"left behind: {sentence}")
        if left := _shared() - shared:
            self.fail(f"left behind: shared memory {sorted(left)}")
        if processes := _children() - children:
            self.fail(f"left behind: processes {sorted(processes)}")
        if alive := [pid for pid in self._pids - {os.getpid()} if Path(f"/proc/{pid}").exists()]:
            self.fail(f"left behind: processes {alive} of the run")


def _end(kubelet: Controller, name: str) -> None:
    """End a pod, on the thread of the controller."""
    placement = kubelet.membership.placements.get(name)
    if placement is not None:
        placement.kill(PodEnding(PodPhase.FAILED, "ended by the test"))


def _shared() -> set[str]:
    """Return the names in shared memory."""
    try:
        return set(os.listdir("/dev/shm"))
    except OSError:
        return set()


def _children() -> set[int]:
    """Return the child processes, with those that have ended and were not waited for."""
    tasks = Path("/proc/self/task")
    return {
        int(child)
        for task in (tasks.iterdir() if tasks.exists() else ())
        for child in Path(task, "children").read_text("ascii").split()
    }


assert FIRST_ROLE >= 8, "senders need numbers of their own"
