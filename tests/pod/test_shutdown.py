"""How a troupe stops: intake, drain, kill; in order, and in time."""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import InvalidArgumentError, PodGoneError, PodTimeoutError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.placement import PodActivity
from bandstand.pod.restart import PodEnding
from bandstand.pod.shutdown import QUIET_ROUNDS, Deadline, shut_down
from bandstand.pod.status import PodStats
from tests.pod.troupes import (
    COOPERATIVE,
    DEDICATED,
    PATIENCE,
    PATIENCE_MS,
    PROCESS,
    Counter,
    Gate,
    in_thread,
    is_gone,
    script_environment,
    solo,
    standing,
    wait_phase,
    wait_until,
)

pytestmark = pytest.mark.real_time(reason="threads and processes live in real time")

COMPLETED, FAILED, TERMINATING = PodPhase.COMPLETED, PodPhase.FAILED, PodPhase.TERMINATING


class Fake:
    """A life that does as it is told."""

    def __init__(
        self,
        name: str,
        book: list[str],
        *,
        heeds: str = "stop",
        stop_ms: float = 1000,
        looks: Sequence[PodActivity] = (),
    ) -> None:
        self._looks = list(looks)
        self.within_ms = -1.0
        self.name = name
        self.stop_ms = stop_ms
        self._book = book
        self._heeds = heeds
        self._over = asyncio.Event()
        self.task = asyncio.create_task(self._live())

    async def _live(self) -> None:
        await self._over.wait()
        self._book.append(f"{self.name} ended")

    def _do(self, what: str) -> None:
        self._book.append(f"{what} {self.name}")
        if self._heeds == what:
            self._over.set()

    def activity(self) -> Future[PodActivity] | None:
        answer: Future[PodActivity] = Future()
        if self._looks:
            answer.set_result(self._looks.pop(0))
        elif self._heeds == "stop":
            answer.set_result(PodActivity(is_quiet=True, waiting={}))
        return answer

    def stop(self, within_ms: float) -> None:
        self.within_ms = within_ms
        self._do("stop")

    def kill(self, ending: PodEnding) -> None:
        assert ending.phase is FAILED
        self._do("kill")

    def abandon(self, ending: PodEnding) -> None:
        assert ending.phase is FAILED
        self._do("abandon")

    def location(self) -> str:
        return f"somewhere in {self.name}"


def shut(make: Callable[[list[str]], list[Fake]], within_ms: float = PATIENCE_MS) -> list[str]:
    book: list[str] = []

    async def main() -> None:
        lives = make(book)
        await asyncio.wait_for(shut_down("Fakes", lives, Deadline(within_ms)), PATIENCE)
        assert all(life.task.done() for life in lives)

    asyncio.run(main())
    return book


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
def test_they_stop_one_after_the_other_the_last_first() -> None:
    book = shut(lambda book: [Fake("a", book), Fake("b", book), Fake("c", book)])
    assert book == ["stop c", "c ended", "stop b", "b ended", "stop a", "a ended"]


def test_one_that_does_not_end_is_killed_when_all_others_have_had_their_time() -> None:
    book = shut(lambda book: [Fake("a", book), Fake("b", book, heeds="kill", stop_ms=10)])
    assert book == ["stop b", "stop a", "a ended", "kill b", "b ended"]


@pytest.mark.slow
def test_an_unkillable_pod_is_named(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bandstand.pod.shutdown.KILL_TIMEOUT_S", 0.1)
    book = shut(lambda book: [Fake("a", book, heeds="abandon", stop_ms=10)])
    assert book == ["stop a", "kill a", "abandon a", "a ended"]
    (loud,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert loud == "troupe 'Fakes': a cannot be killed, and is abandoned: it is at somewhere in a"


def test_what_was_spent_on_draining_is_not_given_again() -> None:
    lives: list[Fake] = []

    def make(book: list[str]) -> list[Fake]:
        lives.append(Fake("a", book, stop_ms=100, looks=[busy(1)] * 10_000))
        lives.append(Fake("b", book, stop_ms=PATIENCE_MS))
        return lives

    shut(make)
    assert [life.within_ms < life.stop_ms for life in lives] == [True, True]
    assert lives[0].within_ms == 0


async def test_a_deadline_can_come_nearer_but_not_recede() -> None:
    deadline = Deadline(PATIENCE_MS)
    deadline.shorten(2 * PATIENCE_MS)
    assert deadline.left_ms <= PATIENCE_MS
    task = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(deadline.wait(task, PATIENCE_MS))  # type: ignore[arg-type]  # any task will do
    await asyncio.sleep(0)
    deadline.shorten(0)
    async with asyncio.timeout(PATIENCE):
        assert await waiting is False
    assert deadline.left_ms == 0
    task.cancel()


def quiet(sent: int) -> PodActivity:
    return PodActivity(is_quiet=True, waiting={}, stats=PodStats(sent=sent, handled=sent))


def busy(sent: int) -> PodActivity:
    return PodActivity(is_quiet=False, waiting={}, stats=PodStats(sent=sent, waiting=sent))


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
def test_nobody_is_stopped_before_all_are_quiet_and_nothing_was_sent_meanwhile() -> None:
    lives: list[Fake] = []

    def make(book: list[str]) -> list[Fake]:
        lives.append(Fake("a", book, looks=[busy(1), quiet(1), quiet(1), quiet(2), quiet(2)]))
        lives.append(Fake("b", book, looks=[quiet(0), busy(1), quiet(1), quiet(1), quiet(1), quiet(9)]))
        return lives

    assert shut(make)[0] == "stop b"
    # The third look was the first at which both were quiet, at the fourth something had been sent, the fifth found no more.
    assert [len(life._looks) for life in lives] == [0, 1]


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
def test_one_that_always_sends_is_stopped_all_the_same() -> None:
    lives: list[Fake] = []

    def make(book: list[str]) -> list[Fake]:
        lives.append(Fake("a", book, looks=[quiet(n) for n in range(100)]))
        return lives

    shut(make)
    assert len(lives[0]._looks) == 100 - QUIET_ROUNDS - 1


# -- for real ----------------------------------------------------------------------------------------------------------


class Sink(Actor):
    """Where everything ends up."""

    def __init__(self, book: list[int]) -> None:
        self.book = book

    @tell
    def put(self, n: int) -> None:
        self.book.append(n)


class Downstream(Directory):
    sink: Sink


class Source(Actor):
    """Passes on, slowly, and says a last word."""

    def __init__(self, peers: Downstream) -> None:
        self.peers = peers

    @tell
    def hold(self, gate: Gate) -> None:
        gate.stand()

    @tell
    def send(self, n: int) -> None:
        self.peers.sink.put(n)

    def on_stop(self, reason: object, cause: object) -> None:
        self.peers.sink.put(-1)


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED])
def test_what_was_accepted_is_handled_and_what_comes_late_is_refused(model: ThreadModel) -> None:
    """The source has a thousand messages when it is stopped; all of them, and its last word, reach the sink, which stops after it."""
    book: list[int] = []

    class Chain(Troupe):
        sink = pod(thread=model).expose(Sink, book)
        source = pod().expose(Source, directory(Downstream))

    gate = Gate()
    troupe = Chain()
    troupe.start()
    troupe.source.hold(gate)
    assert gate.reached.wait(PATIENCE)
    for n in range(1000):
        troupe.source.send(n)
    stopping = in_thread(troupe.stop)
    try:
        # Its thread is busy, and cannot say that it is terminating; but the door is closed by then or a moment later.
        wait_until(lambda: troupe.__deployment__.caller.runtime.address_book.why_gone("sink") is not None)
    finally:
        gate.open()
    wait_phase(troupe, "source", TERMINATING, COMPLETED)
    wait_until(lambda: is_gone(lambda: troupe.source.send(-2)))
    stopping()
    assert [n for n in book if n != -2] == [*range(1000), -1]
    assert [event.pod for event in troupe.phases.history if event.phase is COMPLETED] == ["source", "sink"]
    stats = troupe.stats()
    assert stats.is_balanced
    assert (stats.dead, stats.waiting) == (0, 0)


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
def test_a_pod_that_cannot_finish_in_its_time_is_ended_and_its_messages_are_dead_letters() -> None:
    class Slow(Actor):
        @tell
        async def wait(self) -> None:
            await asyncio.Event().wait()

    class Show(Troupe):
        slow = pod(stop_timeout=0.05).expose(Slow)

    troupe = Show()
    troupe.start()
    for _ in range(5):
        troupe.slow.wait()
    began = time.monotonic()
    troupe.stop()
    assert time.monotonic() - began < PATIENCE
    event = troupe.phases.of("slow")
    assert event.phase is COMPLETED
    assert "messages were left" in event.reason
    stats = troupe.stats()
    assert stats.is_balanced
    assert stats.dead >= 4


@pytest.mark.slow
@pytest.mark.guarantee("G165")
def test_a_stuck_thread_is_named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.shutdown.KILL_TIMEOUT_S", 0.1)
    troupe = solo(DEDICATED, stop_timeout=0.02)
    troupe.start()
    with standing(troupe.counter):
        (thread,) = [each for each in threading.enumerate() if each.name == "bandstand Solo.counter"]
        assert thread.daemon
        troupe.stop(0.02)
        assert troupe.phases.of("counter").phase is FAILED
        assert "abandoned" in troupe.phases.of("counter").reason
        (loud,) = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
        assert "pod 'counter' cannot be killed, and is abandoned: it is at " in loud
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.slow
@pytest.mark.guarantee("G294")
@pytest.mark.spec("S1")
@pytest.mark.parametrize("others", [0, 5], ids=["unread", "read"])
def test_messages_of_an_abandoned_pod_are_counted(monkeypatch: pytest.MonkeyPatch, others: int) -> None:
    monkeypatch.setattr("bandstand.pod.shutdown.KILL_TIMEOUT_S", 0.1)
    troupe = solo(DEDICATED, stop_timeout=0.02)
    troupe.start()
    for _ in range(others):
        troupe.counter.add()
    if others:
        assert troupe.counter.value.blocking() == others
    before = troupe.stats()
    with standing(troupe.counter):
        for _ in range(60):
            troupe.counter.add()
        (thread,) = [each for each in threading.enumerate() if each.name == "bandstand Solo.counter"]
        troupe.stop(0.02)
        stats = troupe.stats()
        assert stats.is_balanced, stats
        assert stats.sent == before.sent + 61
        assert (stats.handled, stats.dead, stats.in_doubt) == (before.handled, 60, 1)
    thread.join(PATIENCE)
    assert troupe.stats() == stats


@pytest.mark.guarantee("G168")
def test_a_stuck_kubelet_ends_stop(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.deployment.STOP_MARGIN_S", 0.1)
    troupe = solo(COOPERATIVE)
    troupe.start()
    with standing(troupe.counter):
        for _ in range(60):
            troupe.counter.add()
        with pytest.raises(PodTimeoutError, match="the thread of its kubelet is stuck, at "):
            troupe.stop(0.02)
        stats = troupe.stats()
        assert (stats.sent, stats.dead, stats.in_doubt) == (61, 60, 1)
        assert stats.is_balanced
    assert troupe.wait(timeout=PATIENCE)


@pytest.mark.slow
@pytest.mark.guarantee("G165")
@pytest.mark.spec("S19")
def test_a_stuck_process_is_killed() -> None:
    troupe = Spinning()
    troupe.start()
    troupe.spinner.spin()
    began = time.monotonic()
    troupe.stop(0.05)
    assert time.monotonic() - began < PATIENCE
    event = troupe.phases.of("spinner")
    assert event.phase is FAILED
    assert "killed" in event.reason


class ByteSource(Actor):
    """Answers with as many bytes as it is asked for."""

    @ask
    def read(self, size: int) -> bytes:
        return bytes(size)

    @ask
    def is_there(self) -> bool:
        return True


class LargeAnswers(Troupe):
    source = pod(thread=PROCESS).role(ask_timeout=PATIENCE).expose(ByteSource)


@pytest.mark.guarantee("G165")
async def test_a_large_answer_is_written_completely_before_its_process_ends() -> None:
    size = 20_000_000
    async with LargeAnswers() as troupe:
        answer = asyncio.ensure_future(troupe.source.read(size))
        # The small answer arrives while the large one is being written.
        assert await troupe.source.is_there()
        assert not answer.done()
    assert len(await answer) == size


class Spinner(Actor):
    @tell
    def spin(self) -> None:
        while True:
            pass


class Spinning(Troupe):
    spinner = pod(thread=PROCESS, stop_timeout=0.05).expose(Spinner)


def test_a_pod_is_stopped_while_it_starts() -> None:
    class Hesitant(Actor):
        async def on_start(self) -> None:
            await asyncio.Event().wait()

    class Show(Troupe):
        hesitant = pod().expose(Hesitant)
        other = pod(thread=COOPERATIVE).expose(Hesitant)

    troupe = Show()
    starting = in_thread(troupe.start)
    for name in ("hesitant", "other"):
        wait_phase(troupe, name, PodPhase.PENDING, number=1)
    troupe.stop()
    with pytest.raises(PodGoneError):
        starting()
    assert [troupe.phases.of(name).reason for name in ("hesitant", "other")] == ["stopped before it ran"] * 2


def test_a_process_is_stopped_while_it_starts() -> None:
    troupe = solo(PROCESS)
    starting = in_thread(troupe.start)
    wait_phase(troupe, "counter", PodPhase.PENDING, number=1)
    troupe.stop()
    with pytest.raises(PodGoneError):
        starting()
    assert troupe.phases.of("counter").phase is COMPLETED


@pytest.mark.slow
@pytest.mark.guarantee("G165")
def test_a_second_stop_can_be_in_more_of_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bandstand.pod.shutdown.KILL_TIMEOUT_S", 0.1)
    troupe = solo(DEDICATED, stop_timeout=PATIENCE)
    troupe.start()
    with standing(troupe.counter):
        stopping = in_thread(troupe.stop)
        troupe.stop(0)
        stopping()
        assert troupe.phases.of("counter").phase is FAILED


def test_stop_is_safe_from_many_threads_at_once() -> None:
    troupe = solo(DEDICATED)
    troupe.start()
    for result in [in_thread(troupe.stop) for _ in range(8)]:
        result()
    troupe.stop()
    assert troupe.phases.of("counter").phase is COMPLETED


@pytest.mark.parametrize("value", [-1, "now", True, timedelta(seconds=-1)])
def test_a_time_that_has_no_sense_is_refused(value: object) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout is"):
        solo(DEDICATED).stop(value)  # type: ignore[arg-type]  # that is the point


# -- signals -----------------------------------------------------------------------------------------------------------

SCRIPT = """
import logging
from tests.pod.test_shutdown import Show

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    Show().play()
    print("played to the end", flush=True)
"""


@contextmanager
def running(script: str, folder: Path) -> Generator[tuple[subprocess.Popen[str], Iterator[str]]]:
    """Run a script; yield its process, and the lines that it prints. It is killed at the end."""
    path = folder / "script.py"
    path.write_text(script, "utf-8")
    with subprocess.Popen(
        [sys.executable, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=script_environment(),
    ) as process:
        assert process.stdout is not None
        try:
            yield process, iter(process.stdout.readline, "")
        finally:
            process.kill()


class Reporter(Actor):
    """Says on standard output that it runs."""

    def on_start(self) -> None:
        print("up", flush=True)  # noqa: T201  # for whoever has started the process


class Show(Troupe):
    counter = pod(thread=PROCESS).expose(Counter)
    other = pod(thread=COOPERATIVE).expose(Counter)
    reporter = pod().expose(Reporter)


class MainShow(Troupe):
    counter = pod().expose(Counter)
    reporter = pod(thread=ThreadModel.MAIN).expose(Reporter)


@pytest.mark.once
@pytest.mark.guarantee("G166")
@pytest.mark.slow
@pytest.mark.spec("S1")
@pytest.mark.parametrize("show", ["Show", "MainShow"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_signal_ends_play_in_good_order(tmp_path: Path, number: signal.Signals, show: str) -> None:
    with running(SCRIPT.replace("Show", show), tmp_path) as (process, lines):
        assert next(lines) == "up\n"
        process.send_signal(number)
        out, log = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (0, "played to the end\n"), log
    assert f"troupe '{show}' has stopped" in log
    assert "Traceback" not in log


STUCK = """
import logging
import signal
import sys
import threading
from tests.pod.troupes import Gate, solo, COOPERATIVE, DEDICATED

if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    before = signal.getsignal(signal.SIGINT)
    troupe = solo(DEDICATED)
    gate = Gate()
    threading.Thread(target=lambda: (troupe.counter.stand(gate), gate.reached.wait(), print("up", flush=True)), daemon=True).start()
    try:
        troupe.play()
    except KeyboardInterrupt:
        print("interrupted", signal.getsignal(signal.SIGINT) is before, flush=True)
        gate.open()
"""


@pytest.mark.once
@pytest.mark.guarantee("G166")
@pytest.mark.slow
def test_a_second_interrupt_is_raised_at_once(tmp_path: Path) -> None:
    with running(STUCK, tmp_path) as (process, lines):
        assert "up\n" in lines
        process.send_signal(signal.SIGINT)
        assert any("is stopping" in line for line in lines)
        process.send_signal(signal.SIGINT)
        out, log = process.communicate(timeout=PATIENCE)
    assert "interrupted True\n" in out, log


STUCK_MAIN_POD = """
import time
from bandstand import Actor
from bandstand.pod import ThreadModel, Troupe, pod


class Clock(Actor):
    def on_start(self) -> None:
        self.after(0.001, self.tick)

    def tick(self) -> None:
        print("stuck", flush=True)
        while True:
            time.sleep(1000)


class Tower(Troupe):
    stop_timeout = 0.2
    clock = pod(thread=ThreadModel.MAIN, stop_timeout=0.1).of(Clock)


if __name__ == "__main__":
    Tower().play()
"""


@pytest.mark.once
@pytest.mark.guarantee("G165")
def test_sigterm_ends_a_program_whose_main_pod_is_stuck(tmp_path: Path) -> None:
    with running(STUCK_MAIN_POD, tmp_path) as (process, lines):
        assert next(lines) == "stuck\n"
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "PodTimeoutError: the main pod of troupe 'Tower' did not end in time" in log


# -- both ways ---------------------------------------------------------------------------------------------------------


class Relay(Actor):
    """Passes on to the next one, slowly, until it has been passed on often enough."""

    def __init__(self, peers: RelayPeers, book: list[int]) -> None:
        self.peers = peers
        self.book = book

    @tell
    async def take(self, n: int) -> None:
        await asyncio.sleep(0)
        self.book.append(n)
        if n:
            (self.peers.second if n % 2 else self.peers.first).take(n - 1)


class RelayPeers(Directory):
    first: Relay
    second: Relay


@pytest.mark.guarantee("G165")
@pytest.mark.spec("S1")
@pytest.mark.parametrize(
    "models", [(DEDICATED, DEDICATED), (COOPERATIVE, DEDICATED), (COOPERATIVE, COOPERATIVE)]
)
def test_pods_that_send_each_other_finish_first(
    models: tuple[ThreadModel, ThreadModel],
) -> None:
    """Whichever was declared first: neither is stopped while the other still has something for it."""
    book: list[int] = []

    class Pair(Troupe):
        first = pod(thread=models[0]).expose(Relay, directory(RelayPeers), book)
        second = pod(thread=models[1]).expose(Relay, directory(RelayPeers), book)

    troupe = Pair()
    troupe.start()
    for _ in range(5):
        troupe.first.take(60)
    troupe.stop()
    assert sorted(book) == sorted([*range(61)] * 5)
    assert {troupe.phases.of(name).phase for name in ("first", "second")} == {COMPLETED}
    stats = troupe.stats()
    assert stats.is_balanced
    assert stats.dead == 0
