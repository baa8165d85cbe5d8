"""Where incarnations run: each stage by itself, without a kubelet."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from bandstand.actor.handle import Handle
from bandstand.pod.ending import Ending
from bandstand.pod.link import Undelivered
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pod.stages import (
    CooperativeStage,
    DedicatedStage,
    LocalStage,
    MainStage,
    OutsideStage,
    ProcessStage,
    Stage,
    Told,
)
from bandstand.pod.vocabulary import PodPhase, ThreadModel
from tests.core.support import Boom
from tests.pod.troupes import DEDICATED, MAIN, PATIENCE, PROCESS, Counter, Gate, in_thread

pytestmark = [
    pytest.mark.spec("S3"),
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

T = TypeVar("T")

RUNNING, COMPLETED, FAILED = PodPhase.RUNNING, PodPhase.COMPLETED, PodPhase.FAILED


@dataclass
class Heard:
    """What a stage has told."""

    begun: list[Stage] = field(default_factory=list[Stage])
    phases: list[PodPhase] = field(default_factory=list[PodPhase])
    threads: set[int] = field(default_factory=set[int])
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def told(self) -> Told:
        return Told(
            phase=self._phase,
            begun=self.begun.append,
            known=self._known,
            failing=self._failing,
            dead=self._dead,
        )

    def _failing(self, stage: Stage, ending: Ending) -> None:
        """How it ends is what `play` returns."""

    def _known(self, stage: Stage, peer: str) -> None:
        raise AssertionError(peer)

    def _phase(self, stage: Stage, phase: PodPhase, reason: str) -> None:
        self.phases.append(phase)
        self.threads.add(threading.get_native_id())
        self.changed.set()

    def _dead(self, letter: Undelivered) -> None:
        raise AssertionError(letter)

    async def until(self, phase: PodPhase) -> None:
        async with asyncio.timeout(PATIENCE):
            while phase not in self.phases:
                self.changed.clear()
                await self.changed.wait()


def spec_of(thread: ThreadModel, **options: Any) -> TroupeSpec:
    role = RoleSpec(name="counter", kind=Counter, is_exposed=True)
    return TroupeSpec(name="Stages", pods=(PodSpec(name="pod", roles=(role,), thread=thread, **options),))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    async def bounded() -> T:
        async with asyncio.timeout(PATIENCE):
            return await main()

    return asyncio.run(bounded())


def counter_of(stage: LocalStage) -> Any:
    handle: Handle = stage.ensemble.handle("counter")
    return handle


@pytest.mark.parametrize("kind", [CooperativeStage, DedicatedStage])
def test_a_local_stage_plays_and_stops(kind: type[CooperativeStage | DedicatedStage]) -> None:
    async def main() -> None:
        heard = Heard()
        stage = kind(spec_of(DEDICATED), "pod", 4, heard.told)
        assert (stage.pod, stage.number, stage.is_apart) == ("pod", 4, False)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        assert heard.begun == [stage]
        assert set(stage.exposed) == {"counter"}
        counter = counter_of(stage)
        counter.add(2)
        assert await counter.value() == 2
        is_here = stage.where.native_id == threading.get_native_id()
        assert is_here is (kind is CooperativeStage)
        look = await asyncio.wrap_future(stage.look())
        assert look.waiting == {"counter": 0}
        stage.stop(1000)
        ending = await playing
        assert ending.phase is COMPLETED
        # Ends are not told, they are returned; and everything is told here.
        assert heard.phases == [RUNNING, PodPhase.TERMINATING]
        assert heard.threads == {threading.get_native_id()}
        assert stage.final.is_balanced
        assert stage.final.handled >= 2

    run(main)


@pytest.mark.parametrize("kind", [CooperativeStage, DedicatedStage])
def test_a_local_stage_fails_with_its_actor(kind: type[CooperativeStage | DedicatedStage]) -> None:
    async def main() -> Ending:
        heard = Heard()
        stage = kind(spec_of(DEDICATED), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        counter_of(stage).crash()
        return await playing

    ending = run(main)
    assert (ending.phase, ending.actor) == (FAILED, "counter")
    assert isinstance(ending.cause, Boom)


@pytest.mark.parametrize("kind", [CooperativeStage, DedicatedStage])
def test_a_local_stage_is_killed(kind: type[CooperativeStage | DedicatedStage]) -> None:
    killed = Ending(FAILED, "killed")

    async def main() -> Ending:
        heard = Heard()
        stage = kind(spec_of(DEDICATED), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        stage.kill(killed)
        return await playing

    assert run(main) == killed


def test_a_stage_is_ended_before_it_begins() -> None:
    early = Ending(COMPLETED, "stopped before it ran")

    async def main() -> Ending:
        stage = DedicatedStage(spec_of(DEDICATED), "pod", 1, Heard().told)
        stage.kill(early)
        return await stage.play()

    assert run(main) == early


def test_a_link_that_comes_too_late_is_closed() -> None:
    async def main() -> None:
        heard = Heard()
        stage = CooperativeStage(spec_of(DEDICATED), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        stage.kill(Ending(COMPLETED))
        await playing
        ours, theirs = socket.socketpair()
        with ours:
            stage.attach(None, theirs, is_running=True)
            assert theirs.fileno() == -1

    run(main)


def test_an_exit_in_a_dedicated_stage_is_its_failure() -> None:
    async def main() -> Ending:
        heard = Heard()
        stage = DedicatedStage(spec_of(DEDICATED), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        counter_of(stage).exit(3)
        return await playing

    ending = run(main)
    assert ending.phase is FAILED
    assert ending.reason == "SystemExit(3) came out of it"
    assert isinstance(ending.cause, SystemExit)


@pytest.mark.guarantee("G170")
def test_a_thread_that_does_not_start_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def main() -> Ending:
        stage = DedicatedStage(spec_of(DEDICATED), "pod", 1, Heard().told)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        try:
            return await stage.play()
        finally:
            monkeypatch.undo()

    ending = run(main)
    assert ending.phase is FAILED
    assert "can't start new thread" in ending.reason


def test_a_stage_that_is_left_behind_may_come_back_when_nobody_is_there() -> None:
    gate = Gate()
    threads: list[threading.Thread] = []

    async def main() -> Ending:
        heard = Heard()
        stage = DedicatedStage(spec_of(DEDICATED), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        threads.extend(thread for thread in threading.enumerate() if thread.name == "bandstand Stages.pod")
        counter_of(stage).stand(gate)
        await asyncio.to_thread(gate.reached.wait, PATIENCE)
        stage.kill(Ending(FAILED, "killed"))
        stage.abandon(Ending(FAILED, "left behind"))
        ending = await playing
        assert stage.is_abandoned
        assert (stage.final.sent, stage.final.in_doubt) == (1, 1)
        return ending

    try:
        assert run(main).reason == "left behind"
    finally:
        gate.open()
    (thread,) = threads
    thread.join(PATIENCE)
    assert not thread.is_alive()


@pytest.mark.spec("S9")
def test_a_dedicated_stage_is_pinned_and_says_so() -> None:
    core = min(os.sched_getaffinity(0))

    async def main() -> None:
        heard = Heard()
        stage = DedicatedStage(spec_of(DEDICATED, core=core), "pod", 1, heard.told)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        assert stage.where.core == core
        assert stage.where.native_id is not None
        assert os.sched_getaffinity(stage.where.native_id) == {core}
        stage.stop(1000)
        await playing

    before = os.sched_getaffinity(0)
    run(main)
    assert os.sched_getaffinity(0) == before


# -- main --------------------------------------------------------------------------------------------------------------


def test_the_main_stage_runs_on_the_thread_that_calls() -> None:
    async def main() -> None:
        heard = Heard()
        stage = MainStage(spec_of(MAIN), "pod", heard.told)

        def call() -> int:
            stage.turn.result(PATIENCE)
            stage.run()
            return threading.get_native_id()

        calling = in_thread(call)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        thread = stage.where.native_id
        stage.stop(1000)
        assert (await playing).phase is COMPLETED
        assert await asyncio.to_thread(calling) == thread != threading.get_native_id()

    run(main)


def test_what_comes_out_of_the_main_stage_comes_out_of_the_call() -> None:
    async def main() -> None:
        heard = Heard()
        stage = MainStage(spec_of(MAIN), "pod", heard.told)

        def call() -> None:
            stage.turn.result(PATIENCE)
            stage.run()

        calling = in_thread(call)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        counter_of(stage).exit(5)
        ending = await playing
        assert ending.phase is FAILED
        with pytest.raises(SystemExit) as caught:
            await asyncio.to_thread(calling)
        assert caught.value.code == 5

    run(main)


# -- process -----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("S19")
def test_a_process_stage_plays_and_stops() -> None:
    async def main() -> None:
        heard = Heard()
        spec = spec_of(PROCESS)
        stage = ProcessStage(spec, spec.pods[0], 2, heard.told, None)
        assert (stage.pod, stage.number, stage.is_apart) == ("pod", 2, True)
        # Nobody is there yet: nothing to be told, and nothing to happen.
        stage.withdraw("pod", "nothing")
        outside = OutsideStage(spec, print)
        riding = asyncio.create_task(outside.perform())
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        assert heard.begun == [stage]
        assert stage.where.process not in {None, os.getpid()}
        ours, theirs = socket.socketpair()
        outside.attach("pod", ours, is_running=True)
        stage.attach(None, theirs, is_running=True)
        assert theirs.fileno() == -1
        counter: Any = outside.ensemble.handle("counter")
        counter.add(2)
        assert await counter.value() == 2
        look = await asyncio.wrap_future(stage.look())
        assert look.waiting == {"counter": 0}
        assert look.books.handled >= 2
        stage.stop(1000)
        ending = await playing
        assert ending.phase is COMPLETED
        assert heard.phases == [RUNNING, PodPhase.TERMINATING]
        assert stage.final.is_balanced
        assert stage.final.handled >= 2
        outside.kill(Ending(COMPLETED))
        await riding

    run(main)


@pytest.mark.slow
@pytest.mark.spec("S19")
def test_a_process_stage_is_killed() -> None:
    killed = Ending(FAILED, "killed, on purpose")

    async def main() -> Ending:
        heard = Heard()
        spec = spec_of(PROCESS)
        stage = ProcessStage(spec, spec.pods[0], 1, heard.told, None)
        playing = asyncio.create_task(stage.play())
        await heard.until(RUNNING)
        stage.kill(killed)
        return await playing

    assert run(main) == killed


@pytest.mark.spec("S19")
def test_a_process_stage_is_stopped_while_it_starts() -> None:
    async def main() -> Ending:
        heard = Heard()
        spec = spec_of(PROCESS)
        stage = ProcessStage(spec, spec.pods[0], 1, heard.told, None)
        playing = asyncio.create_task(stage.play())
        await asyncio.sleep(0)
        stage.stop(1000)
        ending = await playing
        assert heard.begun == []
        return ending

    ending = run(main)
    assert (ending.phase, ending.reason) == (COMPLETED, "stopped before it ran")


@pytest.mark.guarantee("G170")
@pytest.mark.spec("S19")
def test_a_process_that_cannot_be_started_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> Ending:
        spec = spec_of(PROCESS)
        stage = ProcessStage(spec, spec.pods[0], 1, Heard().told, None)
        monkeypatch.setattr("sys.executable", "/nowhere/python")
        return await stage.play()

    ending = run(main)
    assert ending.phase is FAILED
    assert "its process did not start" in ending.reason
