"""A pod whose actor raises an exception that cannot be shown has failed, and is started again: in every kind of thread."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import PodFailedError, TargetEndedError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.supervision import RestartPolicy
from tests.hostile import HOW, hostile
from tests.pod.troupes import ALWAYS, COOPERATIVE, DEDICATED, MAIN, NEVER, PATIENCE, PROCESS, wait_phase

pytestmark = [
    pytest.mark.guarantee("G282"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
    pytest.mark.slow,
]

# Processes are slow to start: some kinds are enough there.
CASES = [
    pytest.param(thread, how, id=f"{thread.name}-{how}")
    for thread in (COOPERATIVE, DEDICATED, PROCESS)
    for how in (("repr", "mute", "rootless", "huge") if thread is PROCESS else HOW)
]
BRIEF = 2_000


class Raiser(Actor):
    """Raises what it is told to, in each place there is."""

    def __init__(self, place: str = "", how: str = "") -> None:
        self.place = place
        self.how = how
        self.fail_in("constructor")

    def fail_in(self, place: str) -> None:
        if place == self.place:
            raise hostile(self.how)

    def on_start(self) -> Any:
        self.fail_in("on_start")
        return self.start() if self.place == "async on_start" else None

    async def start(self) -> None:
        await asyncio.sleep(0)
        raise hostile(self.how)

    @tell
    def crash(self, how: str) -> None:
        raise hostile(how)

    @tell
    async def crash_async(self, how: str) -> None:
        await asyncio.sleep(0)
        raise hostile(how)

    @ask
    def answer(self, how: str) -> int:
        raise hostile(how)

    @ask
    def ping(self) -> str:
        return "pong"


class Solo(Troupe):
    raiser = pod(restart=ALWAYS).expose(Raiser)


def solo(thread: ThreadModel, restart: RestartPolicy = ALWAYS, place: str = "", how: str = "") -> Solo:
    spec = Solo.layout()["raiser"]
    roles = (replace(spec.roles[0], args=(place, how)),)
    return Solo(
        layout={
            "raiser": replace(spec, thread=thread, restart=restart, roles=roles, max_restarts=100, period=5.0)
        }
    )


@pytest.mark.parametrize(("thread", "how"), CASES)
def test_it_is_started_again(thread: ThreadModel, how: str) -> None:
    with solo(thread) as troupe:
        handle = troupe.raiser
        handle.crash(how)
        wait_phase(troupe, "raiser", PodPhase.RUNNING, number=2)
        handle.crash_async(how)
        wait_phase(troupe, "raiser", PodPhase.RUNNING, number=3)
        with pytest.raises(TargetEndedError) as caught:
            handle.answer.blocking(how)
        assert len(str(caught.value)) < BRIEF
        wait_phase(troupe, "raiser", PodPhase.RUNNING, number=4)
        assert handle.ping.blocking() == "pong"
        failed = [event for event in troupe.phases.history if event.phase is PodPhase.FAILED]
        assert len(failed) == 3
        assert max(len(event.reason) for event in failed) < BRIEF
        assert troupe.health(timeout=PATIENCE)


@pytest.mark.parametrize(("thread", "how"), CASES)
@pytest.mark.parametrize("place", ["constructor", "on_start", "async on_start"])
def test_a_start_that_raises_it_is_a_failure(thread: ThreadModel, how: str, place: str) -> None:
    troupe = solo(thread, NEVER, place, how)
    with pytest.raises(PodFailedError) as caught:
        troupe.start(timeout=PATIENCE)
    assert len(str(caught.value)) < BRIEF
    assert caught.value.pod == "raiser"


@pytest.mark.parametrize("how", HOW)
def test_on_the_main_thread_it_ends_the_troupe(how: str) -> None:
    async def main() -> None:
        async with solo(MAIN, NEVER) as troupe:
            troupe.raiser.crash(how)
            await asyncio.Event().wait()

    with pytest.raises(PodFailedError) as caught:
        asyncio.run(main())
    assert len(str(caught.value)) < BRIEF
