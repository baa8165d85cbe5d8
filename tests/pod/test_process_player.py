"""A pod in a process of its own: what its kubelet is told, and how each way of dying looks from there."""

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

from bandstand.errors import InvalidArgument, PodGone, StartFailed, TargetEnded
from bandstand.pod.process import Control, spawn_child
from bandstand.pod.process.player import PLAY, play
from bandstand.pod.process.words import (
    Announce,
    Attach,
    Begin,
    Books,
    Ended,
    Entered,
    Retire,
    Stop,
    TellBooks,
    Withdraw,
)
from bandstand.pod.spec import TroupeSpec
from bandstand.pod.vocabulary import PodPhase
from tests.pod.errands import Unreadable, is_zombie_or_alive, runner_of
from tests.pod.playing import Painter, Played, Stillborn, heard_from, pipe_in, played, request_id, studio

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.real_time(reason="processes are real"),
    pytest.mark.usefixtures("bandstand_leak_check"),
]

Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def run(loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    return runner_of(loop_factory)


RED = studio(Painter, "red")


@pytest.mark.slow
def test_it_plays_and_says_when_it_runs(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            assert await stage.word(Entered) == Entered(PodPhase.RUNNING, "")
            assert await stage.painter.paint("house") == ("red house", stage.child.pid, "none")

    run(body())


@pytest.mark.slow
def test_it_stops_when_it_has_handled_what_it_had(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            for _ in range(100):
                stage.painter.stroke()
            assert await stage.painter.count() == 100
            for _ in range(50):
                stage.painter.stroke()
            stage.child.control.send(Stop(5000.0))
            assert await stage.word(Entered) == Entered(PodPhase.RUNNING, "")
            assert await stage.word(Entered) == Entered(PodPhase.TERMINATING, "")
            ended = await stage.word(Ended)
            assert ended.ending().phase is PodPhase.COMPLETED
            assert ended.total.is_balanced
            assert (await stage.exit()).is_clean

    run(body())


@pytest.mark.slow
@pytest.mark.guarantee("G141")
def test_sigterm_stops_it_too(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            await stage.painter.count()
            stage.child.terminate()
            ending, exit_ = await stage.ending()
            assert ending.phase is PodPhase.COMPLETED
            assert exit_.is_clean

    run(body())


@pytest.mark.slow
def test_it_ends_when_all_its_actors_have(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            await stage.painter.count()
            stage.painter.leave()
            ending, exit_ = await stage.ending()
            assert (ending.phase, ending.reason) == (PodPhase.COMPLETED, "all its actors have ended")
            assert exit_.is_clean

    run(body())


@pytest.mark.slow
def test_it_says_how_it_is(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            for _ in range(3):
                stage.painter.stroke()
            await stage.painter.count()
            stage.child.control.send(TellBooks(7))
            books = await stage.word(Books)
            assert (books.number, books.waiting) == (7, {"painter": 0})
            assert books.total.is_balanced
            assert books.total.handled >= 4

    run(body())


@pytest.mark.slow
def test_context_variables_go_along_if_its_troupe_carries_them(run: Run) -> None:
    async def body() -> None:
        spec = replace(RED, carries=(request_id,))
        async with played(spec, troupe="tests.pod.playing:Gallery") as stage:
            request_id.set("42")
            assert (await stage.painter.paint("tree"))[2] == "42"

    run(body())


@pytest.mark.slow
@pytest.mark.guarantee("G142")
@pytest.mark.spec("S9")
def test_it_is_pinned(run: Run) -> None:
    core = max(os.sched_getaffinity(0))

    async def body() -> None:
        async with played(studio(Painter, "red", core=core)) as stage:
            assert await stage.painter.cores() == [core]

    run(body())


@pytest.mark.slow
def test_what_it_is_told_of_others_reaches_its_registry(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            stage.child.control.send(Announce("easel"))
            stage.child.control.send(Withdraw("easel"))
            stage.child.control.send(Retire("easel", "it is done"))
            stage.child.control.send(TellBooks(1))
            assert (await stage.word(Books)).number == 1

    run(body())


@pytest.mark.slow
@pytest.mark.parametrize("is_with_descriptor", [True, False])
def test_a_word_that_it_does_not_know_is_a_failure(run: Run, is_with_descriptor: bool) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            stage.child.control.send("abracadabra", (0,) if is_with_descriptor else ())
            ending, exit_ = await stage.ending()
            assert ending.phase is PodPhase.FAILED
            assert ending.reason == (
                f"its kubelet has said 'abracadabra', with {int(is_with_descriptor)} descriptors: nobody here knows what that means"
            )
            assert exit_.code == 1

    run(body())


@pytest.mark.slow
def test_a_word_that_it_cannot_read_is_a_failure(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            stage.child.control.send(Unreadable())
            ending, _exit = await stage.ending()
            assert ending.reason == "what came from the parent cannot be read here: RuntimeError: not here"

    run(body())


@pytest.mark.slow
def test_a_pod_that_is_none_is_a_failure(run: Run) -> None:
    async def body() -> None:
        begin = Begin(spec=RED, pod="cellar", number=1)
        async with await spawn_child(PLAY, name="Studio.cellar", payload=begin) as child:
            exit_ = await child.wait()
            assert exit_.sentence == "troupe 'Studio' has no pod 'cellar'"
            assert isinstance(exit_.cause, InvalidArgument)

    run(body())


@pytest.mark.slow
def test_a_troupe_that_is_not_there_is_a_failure(run: Run) -> None:
    async def body() -> None:
        begin = Begin(spec=RED, pod="easel", number=1, troupe="tests.nowhere:Gallery")
        async with await spawn_child(PLAY, name="Studio.easel", payload=begin) as child:
            assert (await child.wait()).sentence == "ModuleNotFoundError: No module named 'tests.nowhere'"

    run(body())


def test_what_it_plays_must_be_found_there(run: Run) -> None:
    class Hidden(Painter):
        pass

    async def body() -> None:
        with pytest.raises(TypeError, match=r"^Begin cannot go to process 'Studio\.easel': "):
            await spawn_child(
                PLAY, name="Studio.easel", payload=Begin(spec=studio(Hidden), pod="easel", number=1)
            )

    run(body())


# -- without a process -------------------------------------------------------------------------------------------------


class Rehearsal:
    """A player in this process, and the other end of its control channel."""

    def __init__(self, spec: TroupeSpec = RED, troupe: str | None = None) -> None:
        here, there = socket.socketpair()
        self.control = Control(here, "process 'Studio.easel'")
        self._begin = Begin(spec=spec, pod="easel", number=1, troupe=troupe)
        self._there = Control(there, "the parent")

    async def play(self) -> list[object]:
        """What it has said in the end, and the code it exits with, if that is none of the good ones."""
        code: object = None
        try:
            await play(self._there, self._begin)
        except SystemExit as error:
            code = error.code
        await self._there.flush()
        self._there.close()
        said = [letter.word async for letter in self.control]
        self.control.close()
        await asyncio.sleep(0)
        return [*said, code]


def test_rehearsal_of_a_stop(run: Run) -> None:
    async def body() -> None:
        rehearsal = Rehearsal()
        others = Withdraw("easel"), Announce("easel")
        for word in (*others, TellBooks(3), Stop(1000.0), Stop(1000.0)):
            rehearsal.control.send(word)
        started, books, stopping, ended, code = await rehearsal.play()
        assert started == Entered(PodPhase.RUNNING, "")
        assert isinstance(books, Books)
        assert (books.number, books.waiting) == (3, {"painter": 0})
        assert stopping == Entered(PodPhase.TERMINATING, "")
        assert isinstance(ended, Ended)
        assert (ended.phase, code) == (PodPhase.COMPLETED, None)

    run(body())


def test_rehearsal_of_a_failure(run: Run) -> None:
    async def body() -> None:
        rehearsal = Rehearsal(spec=studio(Stillborn))
        *_failing, ended, code = await rehearsal.play()
        assert isinstance(ended, Ended)
        assert (ended.phase, ended.actor, code) == (PodPhase.FAILED, "painter", 1)
        assert isinstance(ended.ending().cause, ValueError)

    run(body())


def test_rehearsal_of_words_that_mean_nothing(run: Run) -> None:
    async def body() -> None:
        for word in ("abracadabra", Unreadable(), Attach("easel", is_running=True)):
            rehearsal = Rehearsal()
            rehearsal.control.send(word, () if isinstance(word, Attach) else (0,))
            # And what comes after that is closed.
            end, other = socket.socketpair()
            with end, other:
                rehearsal.control.send(Attach(None, is_running=True), (other.fileno(),))
            *_said, ended, code = await rehearsal.play()
            assert isinstance(ended, Ended)
            assert (ended.phase, code) == (PodPhase.FAILED, 1)

    run(body())


def test_rehearsal_of_a_cancellation(run: Run) -> None:
    async def body() -> None:
        rehearsal = Rehearsal(troupe="tests.pod.playing:Gallery")
        playing = asyncio.create_task(rehearsal.play())
        assert (await rehearsal.control.receive()).word == Entered(PodPhase.RUNNING, "")
        playing.cancel()
        stopping, ended, code = await playing
        assert stopping == Entered(PodPhase.TERMINATING, "")
        assert isinstance(ended, Ended)
        assert (ended.phase, code) == (PodPhase.COMPLETED, None)

    run(body())


# -- ways to die -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G139")
def test_an_actor_that_is_not_born_is_a_failure(run: Run) -> None:
    async def body() -> None:
        async with played(studio(Stillborn)) as stage:
            ending, exit_ = await stage.ending()
            assert (ending.phase, ending.actor) == (PodPhase.FAILED, "painter")
            assert "no canvas" in ending.reason
            assert isinstance(ending.cause, ValueError)
            assert 'raise ValueError("no canvas")' in str(ending.cause.__cause__)
            assert exit_.code == 1

    run(body())


@pytest.mark.slow
@pytest.mark.guarantee("G139")
def test_an_exception_is_a_failure_that_says_whose(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            stage.painter.fail()
            ending, exit_ = await stage.ending()
            assert (ending.phase, ending.actor) == (PodPhase.FAILED, "painter")
            assert ending.reason == "it failed with ValueError('no such colour')"
            assert isinstance(ending.cause, ValueError)
            assert 'raise ValueError("no such colour")' in str(ending.cause.__cause__)
            assert exit_.code == 1

    run(body())


@pytest.mark.slow
@pytest.mark.guarantee("G139")
def test_no_memory_is_a_failure_like_others(run: Run) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            stage.painter.exhaust()
            ending, exit_ = await stage.ending()
            assert (ending.phase, ending.actor) == (PodPhase.FAILED, "painter")
            assert isinstance(ending.cause, MemoryError)
            assert exit_.code == 1

    run(body())


async def kill(stage: Played) -> None:
    os.kill(stage.child.pid, signal.SIGKILL)


async def segfault(stage: Played) -> None:
    stage.painter.segfault()


async def exit_with(stage: Played) -> None:
    stage.painter.exit_with(4)


async def exit_at_once(stage: Played) -> None:
    stage.painter.exit_at_once(3)


@pytest.mark.slow
@pytest.mark.guarantee("G139")
@pytest.mark.parametrize(
    ("way", "sentence"),
    [
        (kill, "killed by SIGKILL"),
        (segfault, "killed by SIGSEGV (segmentation fault)"),
        (exit_with, "exit code 4"),
        (exit_at_once, "exit code 3"),
    ],
)
def test_ways_to_die_without_a_word(
    run: Run, way: Callable[[Played], Coroutine[Any, Any, None]], sentence: str
) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            await stage.painter.count()
            await way(stage)
            assert (await stage.exit()).sentence == sentence
            assert not [letter.word async for letter in stage.child.control if isinstance(letter.word, Ended)]
            assert not is_zombie_or_alive(stage.child.pid)

    run(body())


@pytest.mark.slow
@pytest.mark.guarantee("G139")
def test_whoever_asked_is_answered_when_it_is_killed(run: Run, tmp_path: Path) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            with pipe_in(tmp_path) as (pipe, fd):
                asking = asyncio.ensure_future(stage.painter.hold(pipe))
                assert await heard_from(fd) == "holding"
            stage.child.kill()
            with pytest.raises(TargetEnded):
                await asking
            stage.outside.registry.retire("easel", "it was killed")
            with pytest.raises(PodGone):
                stage.painter.stroke()

    run(body())


@pytest.mark.slow
def test_what_an_actor_forks_does_not_keep_its_link(run: Run, tmp_path: Path) -> None:
    async def body() -> None:
        async with played(RED) as stage:
            fork = await stage.painter.fork()
            try:
                with pipe_in(tmp_path) as (pipe, fd):
                    asking = asyncio.ensure_future(stage.painter.hold(pipe))
                    assert await heard_from(fd) == "holding"
                stage.child.kill()
                with pytest.raises(TargetEnded):
                    await asking
            finally:
                os.kill(fork, signal.SIGKILL)

    run(body())


@pytest.mark.slow
def test_a_spec_that_cannot_be_read_is_a_failed_start(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.pod import playing

    class Passing(Painter):
        pass

    Passing.__module__, Passing.__qualname__ = "tests.pod.playing", "Passing"
    monkeypatch.setattr(playing, "Passing", Passing, raising=False)

    async def body() -> None:
        with pytest.raises(StartFailed, match="Can't get attribute 'Passing'"):
            await spawn_child(
                PLAY, name="Studio.easel", payload=Begin(spec=studio(Passing), pod="easel", number=1)
            )

    run(body())
