"""What is urgent and comes from another thread does not wait behind a pod's mailbox: CONTROL, kill, stop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from bandstand.actor import Actor, tell
from bandstand.actor.bound_methods import kill_actor, stop_actor
from bandstand.core import Lane
from bandstand.errors import PodFailedError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import TroupeSpec
from tests.pod.troupes import COOPERATIVE, DEDICATED, PATIENCE_MS, Gate, in_thread, wait_phase, wait_until

pytestmark = [pytest.mark.real_time(reason="threads live in real time"), pytest.mark.guarantee("G269")]

MANY = 59
seen: list[str] = []


class Clerk(Actor):
    """Writes down what it handles; stands before a gate when it is told to."""

    @tell
    def stand(self, gate: Gate) -> None:
        seen.append("stand")
        gate.stand()

    @tell
    def work(self) -> None:
        seen.append("work")

    @tell(lane=Lane.CONTROL)
    def hurry(self) -> None:
        seen.append("hurry")


class Office(Troupe):
    clerk = pod().expose(Clerk)


def office(thread: ThreadModel) -> Office:
    return Office(layout={"clerk": replace(Office.layout()["clerk"], thread=thread)})


def occupy(clerk: Any) -> Gate:
    """Have a clerk stand before a gate in the middle of a visit, with much in the mailbox; the gate."""
    seen.clear()
    first, second = Gate(), Gate()
    clerk.stand(first)
    assert first.reached.wait(PATIENCE_MS / 1000)
    clerk.stand(second)
    for _ in range(MANY):
        clerk.work()
    first.open()
    assert second.reached.wait(PATIENCE_MS / 1000)
    return second


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
def test_a_control_message_comes_before_the_next_data(thread: ThreadModel) -> None:
    with office(thread) as troupe:
        gate = occupy(troupe.clerk)
        troupe.clerk.hurry()
        gate.open()
        wait_until(lambda: len(seen) == MANY + 3)
        assert seen[:4] == ["stand", "stand", "hurry", "work"]


@pytest.mark.parametrize("thread", [DEDICATED, COOPERATIVE])
@pytest.mark.parametrize("end", [kill_actor, stop_actor])
def test_an_ended_actor_handles_no_other_message(thread: ThreadModel, end: Callable[[Any], None]) -> None:
    with suppress(PodFailedError), office(thread) as troupe:
        gate = occupy(troupe.clerk)
        end(troupe.clerk)
        gate.open()
        wait_phase(troupe, "clerk", PodPhase.COMPLETED, PodPhase.FAILED)
    assert seen == ["stand", "stand"]


def test_a_pod_that_is_killed_handles_the_message_at_hand_and_no_other() -> None:
    runtime = PodRuntime(TroupeSpec(name="Office", pods=(Office.layout()["clerk"],)), "clerk", 1)
    played = in_thread(lambda: asyncio.run(runtime.run()))
    wait_until(lambda: runtime.phase is PodPhase.RUNNING)
    gate = occupy(runtime.handle("clerk"))
    runtime.kill(PodEnding(PodPhase.FAILED, "killed"))
    gate.open()
    assert played().reason == "killed"
    assert seen == ["stand", "stand"]
