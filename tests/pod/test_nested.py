"""Troupes inside troupes: each has its own kubelet, and a failure stops at the border unless the parent watches."""

from __future__ import annotations

import threading

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import InvalidArgumentError, PodFailedError, PodGoneError
from bandstand.pod.declaration import nested, pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import PodPhase
from tests.core.support import Boom
from tests.pod.troupes import (
    ALWAYS,
    COOPERATIVE,
    ON_FAILURE,
    PATIENCE,
    Counter,
    is_gone,
    wait_phase,
    wait_until,
)

pytestmark = [
    pytest.mark.spec("S17"),
    pytest.mark.guarantee("G171"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

RUNNING, COMPLETED, FAILED = PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED


class Effects(Troupe):
    """A troupe that gives up at its first failure, and one pod that may fail."""

    reverb = pod(restart=ALWAYS, max_restarts=0, period=1.0).expose(Counter)
    echo = pod(thread=COOPERATIVE).expose(Counter)


class Rack(Directory):
    effects: Effects


class Mixer(Actor):
    """Uses the effects, from the troupe around."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack

    @tell
    def mix(self, n: int) -> None:
        self.rack.effects.reverb.add(n)

    @ask
    async def level(self) -> int:
        return await self.rack.effects.reverb.value()


class Studio(Troupe):
    mixer = pod().expose(Mixer, directory(Rack))
    effects = nested(Effects)


class Open(Studio):
    effects = nested(Effects, watched=False)


class Lively(Studio):
    effects = nested(Effects, restart=ON_FAILURE, max_restarts=2, period=60.0)


def test_its_handles_are_for_the_pods_around_and_for_the_program() -> None:
    with Studio() as studio:
        studio.mixer.mix(4)
        assert studio.mixer.level.blocking() == 4
        studio.effects.reverb.add(1)
        assert studio.effects.reverb.value.blocking() == 5
        names = {thread.name for thread in threading.enumerate()}
        assert {"bandstand Studio kubelet", "bandstand Effects kubelet"} <= names
        status = studio.status(timeout=PATIENCE)
        assert [inner.name for inner in status.nested] == ["effects"]
        assert status.pod("effects.reverb").phase is RUNNING
        assert bool(studio.health(timeout=PATIENCE))
        stats = studio.stats(timeout=PATIENCE)
        assert stats.is_balanced
    assert studio.status().pod("effects.reverb").phase is COMPLETED
    with pytest.raises(PodGoneError):
        studio.effects.reverb.add(1)
    assert studio.stats().is_balanced


def test_those_inside_stop_after_those_who_use_them() -> None:
    studio = Studio()
    with studio:
        pass
    events = sorted((*studio.phases.history, *studio.effects.phases.history), key=lambda event: event.at)
    ends = [event.pod for event in events if event.phase is COMPLETED]
    assert ends == ["mixer", "echo", "reverb"]


def test_the_failure_of_one_that_is_watched_is_the_parents() -> None:
    studio = Studio()
    studio.start()
    studio.effects.reverb.crash()
    with pytest.raises(PodFailedError, match="effects") as caught:
        studio.wait(timeout=PATIENCE)
    assert caught.value.pod == "effects"
    inner = caught.value.__cause__
    assert isinstance(inner, PodFailedError)
    assert (inner.pod, inner.actor) == ("reverb", "reverb")
    assert isinstance(inner.__cause__, Boom)
    assert studio.effects.failure is inner
    assert studio.status().pod("mixer").phase is COMPLETED


def test_the_failure_of_one_that_is_not_watched_stops_at_its_border() -> None:
    with Open() as studio:
        studio.effects.reverb.crash()
        wait_phase(studio.effects, "echo", COMPLETED)
        assert studio.effects.failure is not None
        assert studio.failure is None
        assert studio.status(timeout=PATIENCE).pod("mixer").phase is RUNNING
        wait_until(lambda: is_gone(lambda: studio.effects.echo.add(1)))


def test_one_that_is_watched_is_started_again_and_its_handles_stay_good() -> None:
    with Lively() as studio:
        studio.mixer.mix(4)
        assert studio.mixer.level.blocking() == 4
        for number in (2, 3):
            studio.effects.reverb.crash()
            wait_phase(studio.effects, "reverb", RUNNING, number=number)
            assert studio.effects.echo.value.blocking() == 0
            # The mixer has lived all the while, and its handle finds the new one.
            studio.mixer.mix(number)
            assert studio.mixer.level.blocking() == number
        assert studio.phases.of("mixer").number == 1
        assert studio.failure is None


@pytest.mark.guarantee("G156")
def test_the_books_of_one_that_is_started_again_are_not_lost() -> None:
    with Lively() as studio:
        for _ in range(50):
            studio.effects.echo.add(1)
        assert studio.effects.echo.value.blocking() == 50
        before = studio.stats()
        studio.effects.reverb.crash()
        wait_phase(studio.effects, "reverb", RUNNING, number=2)
        assert studio.effects.echo.value.blocking() == 0
        assert studio.stats().handled > before.handled > 50
    after = studio.stats()
    assert after.is_balanced
    assert after.handled > before.handled


def test_one_that_fails_too_often_is_the_parents_failure() -> None:
    studio = Lively()
    studio.start()
    for number in (1, 2, 3):
        wait_phase(studio.effects, "reverb", RUNNING, number=number)
        studio.effects.reverb.crash()
    with pytest.raises(PodFailedError, match="2 are allowed"):
        studio.wait(timeout=PATIENCE)


def test_a_pod_inside_that_is_gone_comes_back_with_its_troupe() -> None:
    with Lively() as studio:
        studio.effects.echo.crash()
        wait_phase(studio.effects, "echo", FAILED)
        with pytest.raises(PodGoneError):
            studio.effects.echo.add(1)
        studio.effects.reverb.crash()
        wait_phase(studio.effects, "echo", RUNNING, number=2)
        assert studio.effects.echo.value.blocking() == 0


class Deep(Troupe):
    lively = nested(Lively, restart=ALWAYS)
    counter = pod(thread=COOPERATIVE).expose(Counter)


def test_a_troupe_in_a_troupe_in_a_troupe() -> None:
    with Deep() as deep:
        deep.lively.mixer.mix(2)
        assert deep.lively.mixer.level.blocking() == 2
        assert deep.lively.effects.reverb.value.blocking() == 2
        assert deep.status(timeout=PATIENCE).pod("lively.effects.reverb").phase is RUNNING
        # The one in the middle gives up, and is started again with the one inside it.
        for number in (1, 2, 3):
            wait_phase(deep.lively.effects, "reverb", RUNNING, number=number)
            deep.lively.effects.reverb.crash()
        wait_phase(deep.lively.effects, "reverb", RUNNING, number=4)
        wait_phase(deep.lively, "mixer", RUNNING, number=2)
        deep.lively.mixer.mix(7)
        assert deep.lively.mixer.level.blocking() == 7
        assert deep.failure is None


def test_one_inside_is_its_parents_to_play() -> None:
    with (
        Studio() as studio,
        pytest.raises(InvalidArgumentError, match="is nested in another one, which starts it"),
    ):
        studio.effects.start()


def test_one_that_does_not_start_keeps_its_parent_from_starting() -> None:
    class Spoiled(Actor):
        def on_start(self) -> None:
            raise Boom("spoiled")

    class Broken(Troupe):
        spoiled = pod().expose(Spoiled)

    class Parent(Troupe):
        broken = nested(Broken)
        counter = pod().expose(Counter)

    class Careless(Troupe):
        broken = nested(Broken, watched=False)
        counter = pod().expose(Counter)

    parent = Parent()
    with pytest.raises(PodFailedError, match="broken"):
        parent.start()
    assert parent.status().pod("counter").phase is COMPLETED
    with Careless() as careless:
        assert careless.counter.value.blocking() == 0
