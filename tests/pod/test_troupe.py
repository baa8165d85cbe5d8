"""Playing a troupe: start, stop, blocks, and what comes out of them."""

# Blocks that raise are what this is about.
# ruff: noqa: PT012, SIM117
# pyright: reportPrivateUsage=false, reportPossiblyUnboundVariable=false
# mypy: disable-error-code="possibly-undefined"

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bandstand.actor import Actor, WhenDown, tell, when_down
from bandstand.errors import (
    InvalidArgumentError,
    LoopBusyError,
    PodDownError,
    PodFailedError,
    PodGoneError,
    PodTimeoutError,
)
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.phases import PodEvent
from tests.core.support import Boom
from tests.pod.troupes import (
    ALWAYS,
    COOPERATIVE,
    DEDICATED,
    MAIN,
    NEVER,
    PATIENCE,
    PROCESS,
    Counter,
    Duo,
    Spoiled,
    in_thread,
    script_environment,
    solo,
    wait_phase,
    wait_until,
)

pytestmark = pytest.mark.real_time(reason="threads and processes live in real time")

RUNNING, COMPLETED, FAILED = PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED


# -- start and stop ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G163")
@pytest.mark.spec("S14")
def test_start_returns_when_all_pods_run_and_stop_when_all_have_ended() -> None:
    troupe = Duo()
    troupe.start()
    assert {pod.phase for pod in troupe.status()} == {RUNNING}
    troupe.teller.pass_on(3)
    assert troupe.teller.value.blocking() == 3
    troupe.stop()
    assert {pod.phase for pod in troupe.status()} == {COMPLETED}
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("bandstand")]


@pytest.mark.guarantee("G164")
@pytest.mark.spec("S14")
def test_handles_are_there_before_the_troupe_plays() -> None:
    """They wait, or keep, or refuse, as they were told, and then they are good."""
    troupe = solo(DEDICATED)
    counter = troupe.counter
    assert troupe.counter is counter
    with pytest.raises(PodDownError):
        when_down(counter, WhenDown.FAIL).add(1)
    with pytest.raises(PodTimeoutError):
        when_down(counter, WhenDown.WAIT, timeout=0.01).add(1)
    when_down(counter, WhenDown.QUEUE, timeout=PATIENCE).add(40)
    waiting = in_thread(lambda: counter.add(2))
    with troupe:
        waiting()
        assert counter.value.blocking() == 42


@pytest.mark.guarantee("G164")
def test_a_troupe_that_never_plays_leaves_nothing_behind() -> None:
    troupe = Duo()
    assert "counter" in repr(troupe.counter)
    troupe.stop()
    assert not troupe.status().is_running
    assert troupe.stats().sent == 0
    assert troupe.failure is None


@pytest.mark.guarantee("G164")
@pytest.mark.spec("S5")
def test_after_its_end_a_handle_says_so() -> None:
    with Duo() as troupe:
        pass
    for call in (lambda: troupe.counter.add(1), troupe.counter.value.blocking):
        with pytest.raises(PodGoneError, match="its troupe is stopping"):
            call()


def test_a_troupe_object_plays_once() -> None:
    with Duo() as troupe:
        with pytest.raises(InvalidArgumentError, match="was started before: make a new object"):
            troupe.start()
    with pytest.raises(InvalidArgumentError, match="was started before"):
        troupe.play()
    troupe.stop()


# -- starts that fail --------------------------------------------------------------------------------------------------


class Unlucky(Troupe):
    counter = pod(thread=COOPERATIVE).expose(Counter)
    spoiled = pod().expose(Spoiled)


@pytest.mark.slow
@pytest.mark.guarantee("G163")
@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED, PROCESS])
def test_a_pod_that_does_not_start_stops_everything_and_is_raised(model: ThreadModel) -> None:
    layout = Unlucky.layout()
    spoiled = layout["spoiled"]
    layout["spoiled"] = type(spoiled)(name="spoiled", roles=spoiled.roles, thread=model)
    troupe = Unlucky(layout=layout)
    with pytest.raises(PodFailedError, match="spoiled") as caught:
        troupe.start()
    assert (caught.value.pod, caught.value.actor) == ("spoiled", "spoiled")
    assert "did not start" in caught.value.reason
    assert isinstance(caught.value.__cause__, Boom)
    assert troupe.failure is caught.value
    assert troupe.status().pod("counter").phase is COMPLETED


class Hesitant(Actor):
    """Takes its time to start: for ever."""

    async def on_start(self) -> None:
        await asyncio.Event().wait()


@pytest.mark.guarantee("G163")
@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED])
def test_a_start_that_takes_too_long_is_given_up(model: ThreadModel) -> None:
    class Slow(Troupe):
        counter = pod(thread=COOPERATIVE).expose(Counter)
        hesitant = pod(thread=model).expose(Hesitant)

    troupe = Slow()
    with pytest.raises(PodTimeoutError, match=r"not up within 0\.1 s: hesitant did not run"):
        troupe.start(timeout=0.1)
    assert troupe.phases.of("hesitant").phase is COMPLETED
    assert troupe.failure is None


@pytest.mark.parametrize("value", [0, -1, "soon", True, timedelta(0)])
def test_times_that_have_no_sense_are_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="timeout is"):
        Duo().start(timeout=value)


# -- blocks ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G158")
def test_a_block_raises_and_logs_the_failure_of_the_last_pod(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "bandstand.pod"), pytest.raises(PodFailedError, match="crash"):
        with solo(DEDICATED, NEVER) as troupe:
            troupe.counter.crash()
            troupe.wait(timeout=PATIENCE)
    # The log has the traceback.
    assert "pod 'counter' #1 failed with this exception" in caplog.text
    assert 'raise Boom("crash")' in caplog.text


@pytest.mark.guarantee("G158")
def test_what_the_block_raises_comes_first_and_has_a_note() -> None:
    with pytest.raises(ValueError, match="mine") as caught:
        with solo(DEDICATED, ALWAYS, max_restarts=0, period=1.0) as troupe:
            troupe.counter.crash()
            wait_phase(troupe, "counter", FAILED)
            raise ValueError("mine")
    assert any("Meanwhile, troupe 'Solo' failed" in note for note in caught.value.__notes__)


async def test_blocking_calls_are_refused_on_the_thread_of_an_event_loop() -> None:
    troupe = Duo()
    for call in (troupe.start, troupe.play, troupe.__enter__):
        with pytest.raises(LoopBusyError, match="async with"):
            call()
    async with troupe:
        with pytest.raises(LoopBusyError):
            troupe.wait()


def test_wait_says_whether_it_is_over() -> None:
    troupe = solo(DEDICATED)
    with pytest.raises(InvalidArgumentError, match="was not started"):
        troupe.wait()
    troupe.start()
    assert troupe.wait(timeout=timedelta(milliseconds=10)) is False
    with pytest.raises(InvalidArgumentError, match="timeout is True"):
        troupe.wait(timeout=True)
    troupe.counter.leave()
    # Nobody is left, so it is over.
    assert troupe.wait(timeout=PATIENCE) is True


# -- async with --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G162")
@pytest.mark.spec("S3")
async def test_in_an_async_block_the_main_pod_rides_along() -> None:
    async with solo(MAIN) as troupe:
        _, thread = await troupe.counter.place()
        assert thread == threading.get_native_id()
        # Its status is known, though it is our own thread that has to say it.
        status = troupe.status().pod("counter")
        assert (status.phase, status.waiting, status.native_id) == (RUNNING, 0, thread)
    assert troupe.phases.of("counter").phase is COMPLETED


@pytest.mark.spec("S16")
@pytest.mark.parametrize("model", [MAIN, DEDICATED])
async def test_a_troupe_that_fails_cancels_its_async_block(model: ThreadModel) -> None:
    restart = NEVER if model is MAIN else ALWAYS
    began = time.monotonic()
    with pytest.raises(PodFailedError, match="counter"):
        async with solo(model, restart, max_restarts=0, period=1.0) as troupe:
            troupe.counter.crash()
            await asyncio.Event().wait()
    # By the failure, and not by the time that this test has.
    assert time.monotonic() - began < PATIENCE / 2
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_a_cancelled_async_block_stops_its_troupe() -> None:
    troupe = Duo()

    async def body() -> None:
        async with troupe:
            await asyncio.Event().wait()

    task = asyncio.create_task(body())
    await troupe.phases.until("counter", RUNNING, timeout=PATIENCE)
    await troupe.phases.until("teller", RUNNING, timeout=PATIENCE)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert {pod.phase for pod in troupe.status()} == {COMPLETED}


async def test_stop_inside_an_async_block_only_asks() -> None:
    async with Duo() as troupe:
        troupe.stop()
        await troupe.phases.until("counter", COMPLETED, timeout=PATIENCE)
        with pytest.raises(PodGoneError):
            troupe.counter.add(1)


# -- play --------------------------------------------------------------------------------------------------------------


class Player(Actor):
    """Plays on the main thread, and ends when it has done what it was made for."""

    def __init__(self, how: str, book: list[object]) -> None:
        self.how = how
        self.book = book

    def on_start(self) -> None:
        self.book.append(threading.get_native_id())
        self.after(0.001, self.perform)

    @tell
    def perform(self) -> None:
        if self.how == "fail":
            raise Boom("main")
        if self.how == "exit":
            sys.exit(7)
        if self.how == "interrupt":
            raise KeyboardInterrupt
        if self.how == "end":
            self.stop()


def stage(how: str, book: list[object]) -> Troupe:
    class Show(Troupe):
        counter = pod().expose(Counter)
        player = pod(thread=MAIN).expose(Player, how, book)

    return Show()


@pytest.mark.guarantee("G162")
@pytest.mark.spec("S3")
def test_play_runs_the_main_pod_here_and_returns_when_it_has_ended() -> None:
    book: list[object] = []
    troupe = stage("end", book)
    troupe.play()
    assert book == [threading.get_native_id()]
    assert [pod.phase for pod in troupe.status()] == [COMPLETED, COMPLETED]
    assert troupe.failure is None


@pytest.mark.guarantee("G162")
@pytest.mark.spec("S16")
def test_a_failing_main_pod_stops_the_troupe_and_raises_pod_failed() -> None:
    troupe = stage("fail", [])
    with pytest.raises(PodFailedError, match=r"pod 'player', whose actor 'player' failed: .*Boom") as caught:
        troupe.play()
    assert (caught.value.pod, caught.value.actor) == ("player", "player")
    assert isinstance(caught.value.__cause__, Boom)
    assert troupe.failure is caught.value
    assert [pod.phase for pod in troupe.status()] == [COMPLETED, FAILED]


@pytest.mark.guarantee("G162")
@pytest.mark.spec("S16")
@pytest.mark.parametrize(("how", "kind"), [("exit", SystemExit), ("interrupt", KeyboardInterrupt)])
def test_an_exit_in_the_main_pod_stops_the_troupe_and_goes_on(how: str, kind: type[BaseException]) -> None:
    troupe = stage(how, [])
    with pytest.raises(kind) as caught:
        troupe.play()
    if isinstance(caught.value, SystemExit):
        assert caught.value.code == 7
    assert troupe.status().pod("counter").phase is COMPLETED


def test_play_without_a_main_pod_returns_when_somebody_stops_it() -> None:
    troupe = Duo()
    playing = in_thread(troupe.play)
    wait_phase(troupe, "counter", RUNNING)
    troupe.stop()
    playing()


def test_play_without_a_main_pod_returns_when_all_pods_have_ended() -> None:
    troupe = solo(DEDICATED)
    playing = in_thread(troupe.play)
    troupe.counter.leave()
    playing()


def test_start_refuses_a_troupe_with_a_main_pod() -> None:
    for call in (lambda: stage("end", []).start(), lambda: stage("end", []).__enter__()):
        with pytest.raises(InvalidArgumentError, match="has a main pod, which start"):
            call()


# -- looking -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G137")
@pytest.mark.spec("S1")
def test_every_transition_is_told_in_order() -> None:
    troupe = solo(DEDICATED, ALWAYS)
    heard: list[PodEvent] = []
    take_back = troupe.on_phase(heard.append)
    with troupe:
        troupe.counter.crash()
        wait_phase(troupe, "counter", RUNNING, number=2)
    take_back()
    assert [(event.number, event.phase.value) for event in heard] == [
        (1, "pending"),
        (1, "running"),
        (1, "failed"),
        (2, "pending"),
        (2, "running"),
        (2, "terminating"),
        (2, "completed"),
    ]
    assert "Boom" in heard[2].reason
    assert list(troupe.phases.history) == heard


@pytest.mark.guarantee("G137")
def test_a_callback_may_look_at_the_troupe() -> None:
    """Also when the kubelet itself is asked."""
    troupe = solo(DEDICATED)
    seen: list[object] = []

    def look(event: PodEvent) -> None:
        if event.phase is RUNNING:
            seen.extend([troupe.status().pod("counter").phase, troupe.health().is_kubelet_prompt])

    troupe.on_phase(look)
    began = time.monotonic()
    with troupe:
        wait_until(lambda: len(seen) == 2)
    assert seen == [RUNNING, True]
    assert time.monotonic() - began < PATIENCE


# -- the end of the program --------------------------------------------------------------------------------------------

FORGOTTEN = """
import logging
from tests.pod.troupes import Duo

logging.basicConfig(level=logging.WARNING)
troupe = Duo()
troupe.start()
troupe.counter.add(1)
print(troupe.teller.value.blocking())
"""


def test_the_status_counts_what_waits() -> None:
    with Duo() as troupe:
        troupe.teller.value.blocking()
        status = troupe.status(timeout=PATIENCE)
        assert status.is_running
        assert status.up_s is not None
        assert [role.waiting for pod in status for role in pod.roles] == [0, 0]
        assert [pod.up_s is not None for pod in status] == [True, True]


@pytest.mark.guarantee("G156")
@pytest.mark.slow
def test_a_forgotten_start_does_not_keep_the_program_from_ending(tmp_path: Path) -> None:
    script = tmp_path / "forgotten.py"
    script.write_text(FORGOTTEN)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        env=script_environment(),
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in {"0", "1"}
    assert "troupe 'Duo' still runs at interpreter exit" in done.stderr
    assert "Traceback" not in done.stderr
