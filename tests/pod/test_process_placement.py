"""A pod in a child process: the control messages that it sends, and how each kind of failure looks to the controller."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bandstand.errors import InvalidArgumentError, StartError, TargetEndedError
from bandstand.pod.enums import PodPhase
from bandstand.pod.placement.process import (
    RUN_POD,
    ActivityReport,
    AttachLink,
    PeerEnded,
    PeerRunning,
    PhaseChanged,
    PodEnded,
    PodStart,
    QueryActivity,
    StopPod,
    run_pod,
)
from bandstand.pod.process import ControlChannel, spawn_child
from bandstand.pod.spec import TroupeSpec
from tests.pod.child_targets import Unreadable, is_zombie_or_alive
from tests.pod.process_pod import Painter, Played, Stillborn, heard_from, pipe_in, played, request_id, studio

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.real_time(reason="processes run in real time"),
    pytest.mark.usefixtures("bandstand_leak_check"),
]

RED = studio(Painter, "red")


@pytest.mark.slow
async def test_it_stops_after_it_has_handled_its_messages() -> None:
    async with played(RED) as pod:
        for _ in range(100):
            pod.painter.stroke()
        assert await pod.painter.count() == 100
        for _ in range(50):
            pod.painter.stroke()
        pod.child.control.send(StopPod(5000.0))
        assert await pod.word(PhaseChanged) == PhaseChanged(PodPhase.RUNNING, "")
        assert await pod.word(PhaseChanged) == PhaseChanged(PodPhase.TERMINATING, "")
        ended = await pod.word(PodEnded)
        assert ended.ending().phase is PodPhase.COMPLETED
        assert ended.stats.is_balanced
        assert (await pod.exit()).is_clean


@pytest.mark.slow
async def test_context_variables_are_carried_if_the_deployment_declares_them() -> None:
    spec = replace(RED, carries=(request_id,))
    async with played(spec, troupe="tests.pod.process_pod:Gallery") as pod:
        request_id.set("42")
        assert (await pod.painter.paint("tree"))[2] == "42"


@pytest.mark.slow
async def test_an_unknown_pod_is_a_failure() -> None:
    start = PodStart(spec=RED, pod="cellar", number=1)
    async with await spawn_child(RUN_POD, name="Studio.cellar", payload=start) as child:
        exit_ = await child.wait()
        assert exit_.reason == "troupe 'Studio' has no pod 'cellar'"
        assert isinstance(exit_.cause, InvalidArgumentError)


async def test_its_actor_classes_must_be_importable() -> None:
    class Hidden(Painter):
        pass

    with pytest.raises(TypeError, match=r"^PodStart cannot be sent to process 'Studio\.easel': "):
        await spawn_child(
            RUN_POD, name="Studio.easel", payload=PodStart(spec=studio(Hidden), pod="easel", number=1)
        )


# -- without a process -------------------------------------------------------------------------------------------------


class LocalRun:
    """`run_pod` in this process, and the other end of its control channel."""

    def __init__(self, spec: TroupeSpec = RED, deployment_class: str | None = None) -> None:
        here, there = socket.socketpair()
        self.control = ControlChannel(here, "process 'Studio.easel'")
        self._start = PodStart(spec=spec, pod="easel", number=1, deployment_class=deployment_class)
        self._there = ControlChannel(there, "the parent")

    async def run(self) -> list[object]:
        """Run to the end; return the messages that it has sent, and the exit code, None for a clean exit."""
        code: object = None
        try:
            await run_pod(self._there, self._start)
        except SystemExit as error:
            code = error.code
        await self._there.flush()
        self._there.close()
        sent = [message.body async for message in self.control]
        self.control.close()
        await asyncio.sleep(0)
        return [*sent, code]


async def test_a_stop_without_a_process() -> None:
    local = LocalRun()
    others = PeerEnded("easel"), PeerRunning("easel")
    for message in (*others, QueryActivity(3), StopPod(1000.0), StopPod(1000.0)):
        local.control.send(message)
    started, report, stopping, ended, code = await local.run()
    assert started == PhaseChanged(PodPhase.RUNNING, "")
    assert isinstance(report, ActivityReport)
    assert (report.number, report.activity.waiting) == (3, {"painter": 0})
    assert stopping == PhaseChanged(PodPhase.TERMINATING, "")
    assert isinstance(ended, PodEnded)
    assert (ended.phase, code) == (PodPhase.COMPLETED, None)


async def test_a_failure_without_a_process() -> None:
    local = LocalRun(spec=studio(Stillborn))
    *_failing, ended, code = await local.run()
    assert isinstance(ended, PodEnded)
    assert (ended.phase, ended.actor, code) == (PodPhase.FAILED, "painter", 1)
    assert isinstance(ended.ending().cause, ValueError)


async def test_invalid_messages_without_a_process() -> None:
    for message in ("abracadabra", Unreadable(), AttachLink("easel", is_running=True)):
        local = LocalRun()
        local.control.send(message, () if isinstance(message, AttachLink) else (0,))
        # A later descriptor is closed.
        end, other = socket.socketpair()
        with end, other:
            local.control.send(AttachLink(None, is_running=True), (other.fileno(),))
        *_sent, ended, code = await local.run()
        assert isinstance(ended, PodEnded)
        assert (ended.phase, code) == (PodPhase.FAILED, 1)


async def test_a_cancellation_without_a_process() -> None:
    local = LocalRun(deployment_class="tests.pod.process_pod:Gallery")
    running = asyncio.create_task(local.run())
    assert (await local.control.receive()).body == PhaseChanged(PodPhase.RUNNING, "")
    running.cancel()
    stopping, ended, code = await running
    assert stopping == PhaseChanged(PodPhase.TERMINATING, "")
    assert isinstance(ended, PodEnded)
    assert (ended.phase, code) == (PodPhase.COMPLETED, None)


# -- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G139")
async def test_an_exception_is_a_failure_with_the_name_of_the_actor() -> None:
    async with played(RED) as pod:
        pod.painter.fail()
        ending, exit_ = await pod.ending()
        assert (ending.phase, ending.actor) == (PodPhase.FAILED, "painter")
        assert ending.reason == "it failed with ValueError('no such colour')"
        assert isinstance(ending.cause, ValueError)
        assert 'raise ValueError("no such colour")' in str(ending.cause.__cause__)
        assert exit_.code == 1


async def kill(pod: Played) -> None:
    os.kill(pod.child.pid, signal.SIGKILL)


async def segfault(pod: Played) -> None:
    pod.painter.segfault()


async def exit_with(pod: Played) -> None:
    pod.painter.exit_with(4)


async def exit_at_once(pod: Played) -> None:
    pod.painter.exit_at_once(3)


@pytest.mark.slow
@pytest.mark.guarantee("G139")
@pytest.mark.parametrize(
    ("way", "reason"),
    [
        (kill, "killed by SIGKILL"),
        (segfault, "killed by SIGSEGV (segmentation fault)"),
        (exit_with, "exit code 4"),
        (exit_at_once, "exit code 3"),
    ],
)
async def test_ends_that_the_process_cannot_report(
    way: Callable[[Played], Coroutine[Any, Any, None]], reason: str
) -> None:
    async with played(RED) as pod:
        await pod.painter.count()
        await way(pod)
        assert (await pod.exit()).reason == reason
        assert not [message.body async for message in pod.child.control if isinstance(message.body, PodEnded)]
        assert not is_zombie_or_alive(pod.child.pid)


@pytest.mark.slow
async def test_a_fork_of_an_actor_does_not_keep_the_link_open(tmp_path: Path) -> None:
    async with played(RED) as pod:
        fork = await pod.painter.fork()
        try:
            with pipe_in(tmp_path) as (pipe, fd):
                asking = asyncio.ensure_future(pod.painter.hold(pipe))
                assert await heard_from(fd) == "holding"
            pod.child.kill()
            with pytest.raises(TargetEndedError):
                await asking
        finally:
            os.kill(fork, signal.SIGKILL)


@pytest.mark.slow
async def test_a_spec_that_cannot_be_unpickled_is_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.pod import process_pod

    class Passing(Painter):
        pass

    Passing.__module__, Passing.__qualname__ = "tests.pod.process_pod", "Passing"
    monkeypatch.setattr(process_pod, "Passing", Passing, raising=False)
    with pytest.raises(StartError, match="Can't get attribute 'Passing'"):
        await spawn_child(
            RUN_POD, name="Studio.easel", payload=PodStart(spec=studio(Passing), pod="easel", number=1)
        )
