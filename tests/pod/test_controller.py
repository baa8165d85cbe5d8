"""The kubelet: it watches exits, starts again, gives up, and sleeps when there is nothing to do."""

from __future__ import annotations

import logging
import os
import resource
import threading
import time

import pytest

from bandstand.actor import Actor, WhenDown, ask, tell, when_down
from bandstand.errors import PodFailedError, PodGoneError, PodTimeoutError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.supervision import Backoff, RestartPolicy
from tests.core.support import Boom
from tests.pod.troupes import (
    ALWAYS,
    COOPERATIVE,
    DEDICATED,
    NEVER,
    ON_FAILURE,
    PATIENCE,
    PROCESS,
    Counter,
    pod_in,
    solo,
    standing,
    wait_phase,
)

pytestmark = pytest.mark.real_time(reason="threads and processes live in real time")

MODELS = [COOPERATIVE, DEDICATED, PROCESS]
# For what a kubelet does alike for all of them: processes take their time, and one lane of them is enough.
LIGHT = [COOPERATIVE, DEDICATED, pytest.param(PROCESS, marks=pytest.mark.once)]
RUNNING, COMPLETED, FAILED = PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED


# -- restarts ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G157")
@pytest.mark.spec("S2", "S15")
@pytest.mark.parametrize(
    ("restart", "model"),
    [(ON_FAILURE, model) for model in MODELS] + [(ALWAYS, model) for model in (COOPERATIVE, DEDICATED)],
)
def test_a_failed_pod_restarts_behind_its_handle(model: ThreadModel, restart: RestartPolicy) -> None:
    with solo(model, restart) as troupe:
        troupe.counter.add(5)
        assert troupe.counter.value.blocking() == 5
        troupe.counter.crash()
        wait_phase(troupe, "counter", RUNNING, number=2)
        # A fresh actor: what the last one knew is gone.
        assert troupe.counter.value.blocking() == 0
        status = troupe.status().pod("counter")
        assert (status.number, status.restarts, status.phase) == (2, 1, RUNNING)


@pytest.mark.slow
@pytest.mark.guarantee("G157")
@pytest.mark.spec("S2", "S5")
@pytest.mark.parametrize("model", LIGHT)
@pytest.mark.parametrize(("restart", "fails"), [(ON_FAILURE, False), (NEVER, False), (NEVER, True)], ids=str)
def test_every_final_end_has_a_reason(model: ThreadModel, restart: RestartPolicy, fails: bool) -> None:
    class Pair(Troupe):
        counter = pod().expose(Counter)
        other = pod(thread=COOPERATIVE).expose(Counter)

    with Pair(layout={"counter": pod_in(model, restart), "other": Pair.layout()["other"]}) as troupe:
        if fails:
            troupe.counter.crash()
        else:
            troupe.counter.leave()
        event = wait_phase(troupe, "counter", FAILED, COMPLETED)
        assert event.phase is (FAILED if fails else COMPLETED)
        with pytest.raises(PodGoneError, match="Boom" if fails else "all its actors have ended"):
            troupe.counter.add(1)
        # The troupe goes on without it.
        assert troupe.other.value.blocking() == 0
        assert troupe.failure is None
        assert troupe.status().pod("counter").is_gone


@pytest.mark.guarantee("G158")
@pytest.mark.spec("S10")
@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED])
def test_a_failing_pod_is_started_again_as_often_as_it_may_and_then_the_troupe_fails(
    model: ThreadModel, caplog: pytest.LogCaptureFixture
) -> None:
    troupe = solo(model, ALWAYS, max_restarts=3, period=60.0)
    troupe.start()
    for number in range(1, 5):
        wait_phase(troupe, "counter", RUNNING, number=number)
        troupe.counter.crash()
    with pytest.raises(PodFailedError) as caught:
        troupe.wait(timeout=PATIENCE)
    assert caught.value is troupe.failure
    assert (caught.value.pod, caught.value.actor) == ("counter", "counter")
    assert "3 are allowed" in caught.value.reason
    assert isinstance(caught.value.__cause__, Boom)
    assert troupe.phases.of("counter").number == 4
    loud = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert any("troupe 'Solo' has failed" in record.getMessage() for record in loud)
    with pytest.raises(PodGoneError):
        troupe.counter.add(1)


@pytest.mark.guarantee("G159")
@pytest.mark.spec("S10")
def test_the_backoff_is_waited_for_and_no_longer_when_the_troupe_stops() -> None:
    backoff = Backoff(initial=60.0, maximum=60.0)
    with solo(DEDICATED, ON_FAILURE, backoff=backoff) as troupe:
        troupe.counter.crash()
        event = wait_phase(troupe, "counter", PodPhase.PENDING, number=2)
        assert event.reason == "restarts in 60000 ms"
        began = time.monotonic()
    assert time.monotonic() - began < PATIENCE
    assert troupe.phases.of("counter").phase is COMPLETED
    assert troupe.phases.of("counter").reason == "stopped before it was restarted"


# -- exits -------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G161")
@pytest.mark.spec("S3", "S8")
@pytest.mark.parametrize("model", [COOPERATIVE, DEDICATED])
@pytest.mark.parametrize("how", ["exit", "interrupt"])
def test_an_exit_in_a_handler_fails_its_pod_and_nobody_else(model: ThreadModel, how: str) -> None:
    class Pair(Troupe):
        counter = pod(thread=model, restart=ON_FAILURE).expose(Counter)
        other = pod(thread=COOPERATIVE).expose(Counter)

    with Pair() as troupe:
        troupe.other.add(7)
        getattr(troupe.counter, how)()
        wait_phase(troupe, "counter", RUNNING, number=2)
        failed = [event for event in troupe.phases.history if event.phase is FAILED]
        assert [event.pod for event in failed] == ["counter"]
        assert ("SystemExit(3)" if how == "exit" else "KeyboardInterrupt()") in failed[0].reason
        assert troupe.counter.value.blocking() == 0
        assert troupe.other.value.blocking() == 7


@pytest.mark.slow
@pytest.mark.guarantee("G161")
@pytest.mark.spec("S19", "S3")
@pytest.mark.parametrize(
    ("how", "sentence"),
    [
        ("vanish", "exit code 3"),
        pytest.param("exit", "exit code 3", marks=pytest.mark.once),
        pytest.param("crash", "Boom", marks=pytest.mark.once),
    ],
)
def test_a_process_that_goes_is_started_again_with_a_reason(how: str, sentence: str) -> None:
    with solo(PROCESS, ON_FAILURE) as troupe:
        pid, _ = troupe.counter.place.blocking()
        getattr(troupe.counter, how)()
        wait_phase(troupe, "counter", RUNNING, number=2)
        again, _ = troupe.counter.place.blocking()
        assert again != pid
        assert os.getpid() not in {pid, again}
        failed = [event for event in troupe.phases.history if event.phase is FAILED]
        assert len(failed) == 1
        assert sentence in failed[0].reason


# -- where they run ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("S3")
def test_each_model_is_where_it_says() -> None:
    class Trio(Troupe):
        cooperative = pod(thread=COOPERATIVE).expose(Counter)
        dedicated = pod().expose(Counter)
        other = pod().expose(Counter)
        process = pod(thread=PROCESS).expose(Counter)

    with Trio() as troupe:
        here = os.getpid()
        places = {
            name: getattr(troupe, name).place.blocking()
            for name in ("cooperative", "dedicated", "other", "process")
        }
        status = troupe.status()
        kubelet = next(thread for thread in threading.enumerate() if thread.name == "bandstand Trio kubelet")
        assert places["cooperative"] == (here, kubelet.native_id)
        assert places["dedicated"][0] == places["other"][0] == here
        assert len({place[1] for place in places.values()}) == 4
        assert threading.get_native_id() not in {place[1] for place in places.values()}
        assert status.pod("process").process == places["process"][0] != here
        assert status.pod("dedicated").native_id == places["dedicated"][1]
        assert any(thread.name == "bandstand Trio.dedicated" for thread in threading.enumerate())


class Runner(Actor):
    """Has always something to do."""

    def __init__(self) -> None:
        self.rounds = 0

    @tell
    def run(self) -> None:
        self.rounds += 1
        self.me.run()

    @ask
    def count(self) -> int:
        return self.rounds


@pytest.mark.slow
@pytest.mark.guarantee("G167")
@pytest.mark.spec("S8")
def test_cooperative_pods_take_turns_though_one_is_always_busy() -> None:
    class Busy(Troupe):
        first = pod(thread=COOPERATIVE, stop_timeout=0.05).expose(Runner)
        second = pod(thread=COOPERATIVE, stop_timeout=0.05).expose(Runner)
        third = pod(thread=COOPERATIVE, restart=ON_FAILURE).expose(Counter)
        duty = pod(restart=ON_FAILURE).expose(Counter)

    with Busy() as troupe:
        troupe.first.run()
        troupe.second.run()
        for n in range(50):
            assert troupe.third.value.blocking() == n
            troupe.third.add(1)
        # Its own duties have their turn as well.
        troupe.duty.crash()
        troupe.third.crash()
        wait_phase(troupe, "duty", RUNNING, number=2)
        wait_phase(troupe, "third", RUNNING, number=2)
        first, second = troupe.first.count.blocking(), troupe.second.count.blocking()
        assert min(first, second) * 4 > max(first, second), (first, second)


@pytest.mark.once
@pytest.mark.guarantee("G167")
@pytest.mark.spec("S8")
@pytest.mark.slow
def test_an_idle_kubelet_sleeps() -> None:
    """Two seconds of nothing: less than ten milliseconds of the processor's time, all threads together."""

    class Idle(Troupe):
        first = pod(thread=COOPERATIVE).expose(Counter)
        second = pod(thread=COOPERATIVE, restart=ALWAYS).expose(Counter)
        third = pod(restart=ALWAYS).expose(Counter)

    with Idle() as troupe:
        assert [each.value.blocking() for each in (troupe.first, troupe.second, troupe.third)] == [0, 0, 0]
        before = resource.getrusage(resource.RUSAGE_SELF)
        threading.Event().wait(2)
        after = resource.getrusage(resource.RUSAGE_SELF)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert used < 0.010


# -- health ------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G168")
@pytest.mark.spec("S18")
def test_with_the_kubelet_really_blocked_connect_ends_in_time_and_health_shows_it() -> None:
    class Stuck(Troupe):
        blocker = pod(thread=COOPERATIVE).expose(Counter)
        victim = pod(restart=ON_FAILURE).expose(Counter)

    with Stuck() as troupe:
        assert bool(troupe.health(timeout=PATIENCE))
        with standing(troupe.blocker):
            # Nobody can start it again now.
            end = troupe.victim.ended.future()
            troupe.victim.crash()
            end.result(PATIENCE)
            began = time.monotonic()
            with pytest.raises(PodTimeoutError, match="200 ms"):
                when_down(troupe.victim, WhenDown.WAIT, timeout=0.2).add(1)
            assert time.monotonic() - began < PATIENCE
            health = troupe.health(timeout=0.1)
            assert health.is_kubelet_alive
            assert not health.is_kubelet_prompt
            assert health.kubelet_latency >= 0.1
            assert "actor 'blocker'" in health.kubelet_at
            assert not health
            assert "has not answered for" in str(health)
            # It does not wait for ever, and says what is known without the kubelet.
            assert troupe.status(timeout=0.1).pod("blocker").phase is RUNNING
        wait_phase(troupe, "victim", RUNNING, number=2)
        assert bool(troupe.health(timeout=PATIENCE))


@pytest.mark.spec("S18")
def test_health_says_who_is_down_and_who_is_gone() -> None:
    class Pair(Troupe):
        down = pod(restart=ON_FAILURE, backoff=Backoff(initial=60.0, maximum=60.0)).expose(Counter)
        gone = pod().expose(Counter)
        well = pod(thread=COOPERATIVE).expose(Counter)

    troupe = Pair()
    assert not troupe.health().is_kubelet_alive
    with troupe:
        troupe.down.crash()
        troupe.gone.crash()
        wait_phase(troupe, "down", PodPhase.PENDING, number=2)
        wait_phase(troupe, "gone", FAILED)
        health = troupe.health(timeout=PATIENCE)
        assert (health.down, health.gone, health.stuck) == (("down",), ("gone",), ())
    assert not troupe.health().is_kubelet_alive


# -- message counts ---------------------------------------------------------------------------------------------------------
