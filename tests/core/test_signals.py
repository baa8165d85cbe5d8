"""SIGINT and SIGTERM: a graceful stop if asked for, KeyboardInterrupt if that is not quick enough, else left alone.

Every program runs in a process of its own, on the event loop of the lane. A signal comes when the program has said what
it is doing; each program must end well whenever exactly that is.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent
from time import monotonic
from typing import Any

import pytest

from bandstand.core import Context, Loop
from bandstand.errors import InvalidArgumentError
from tests.core.support import call_in, in_thread, run_message

PATIENCE = 40  # seconds for a process to do what it must

PRELUDE = """
import asyncio, logging, os, signal, sys, threading
logging.basicConfig(level=logging.ERROR)
from bandstand.core import Loop, LoopConfig

if os.environ.get("BANDSTAND_TEST_LOOP", "asyncio") == "uvloop":
    from uvloop import new_event_loop
else:
    from asyncio import new_event_loop

def say(*words):
    print(*words, flush=True)

class Ear:
    def on_actor_stop(self, id, reason):
        say("ended", names[id], reason.name)

names = {}

def make(**fields):
    loop = Loop(LoopConfig(loop_factory=new_event_loop, **fields))
    loop.set_observer(Ear())
    return loop

def spawn(loop, behavior, name):
    actor = loop.spawn(behavior, name=name)
    names[actor] = name
    return actor

def idle(ctx, data):
    pass

async def waiting(ctx, data):
    try:
        say("waiting")
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0)
        say("finally")

async def stubborn(ctx, data):
    say("waiting")
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            say("ignored")

def spinning(ctx, data):
    say("spinning")
    while True:
        pass
"""


class Program:
    """A program in a process of its own, in the mode and on the event loop of this lane."""

    def __init__(self, text: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "error", "-c", PRELUDE + dedent(text)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.said: list[str] = []

    def until(self, word: str) -> None:
        """Read what it says, until it says `word`."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.said.append(line.strip())
            if self.said[-1] == word:
                return
        raise AssertionError(f"it never said {word!r}: {self.said}, {self.end()}")

    def asleep(self) -> None:
        """Wait until the process sleeps in its event loop, as far as can be seen from outside."""
        deadline = monotonic() + PATIENCE
        stat = Path(f"/proc/{self._process.pid}/stat")
        calm = 0
        while calm < 20:
            calm = calm + 1 if stat.read_text("ascii").rpartition(")")[2].split()[0] == "S" else 0
            assert monotonic() < deadline, "it never sleeps"

    def signal(self, number: signal.Signals) -> None:
        os.kill(self._process.pid, number)

    def end(self) -> tuple[int, str]:
        """Its exit code, and what it wrote to its error output."""
        out, errors = self._process.communicate(timeout=PATIENCE)
        self.said += out.split("\n")[:-1]
        return self._process.returncode, errors

    def kill(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


@contextmanager
def program(text: str) -> Generator[Program]:
    running = Program(text)
    try:
        yield running
    finally:
        running.kill()


BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
GRACEFUL = """
    loop = make()
    spawn(loop, idle, "idler")
    loop.send(spawn(loop, waiting, "waiter"), None)
    {run}
    say("over", loop.statistics().alive)
    loop.destroy()
"""


@pytest.mark.slow
@pytest.mark.spec("J1")
@pytest.mark.guarantee("G30")
@BOTH
@pytest.mark.parametrize("sleeping", [False, True], ids=["any time", "asleep"])
def test_the_first_signal_asks_for_a_graceful_stop(number: signal.Signals, sleeping: bool) -> None:
    with program(GRACEFUL.format(run="loop.run(handle_signals=True)")) as running:
        running.until("waiting")
        if sleeping:
            running.asleep()
        running.signal(number)
        assert running.end() == (0, "")
        assert running.said == ["waiting", "ended idler NORMAL", "finally", "ended waiter NORMAL", "over 0"]


@pytest.mark.guarantee("G30")
def test_signals_after_the_first_sigterm_change_nothing_but_a_sigint_does() -> None:
    text = """
    def busy(ctx, data):
        for _ in range(5):
            os.kill(os.getpid(), signal.SIGTERM)
        say("still here")
        os.kill(os.getpid(), signal.SIGINT)
        say("not here")

    loop = make()
    loop.send(spawn(loop, busy, "busy"), None)
    try:
        loop.run(handle_signals=True)
    except KeyboardInterrupt:
        say("interrupted", loop.statistics().alive)
    """
    with program(text) as running:
        assert running.end() == (0, "")
        assert running.said == ["still here", "ended busy NORMAL", "interrupted 0"]


@pytest.mark.spec("J11")
@pytest.mark.guarantee("G30", "G22")
@BOTH
@pytest.mark.parametrize("is_async", [False, True], ids=["function", "coroutine"])
def test_a_second_sigint_interrupts_a_behavior(number: signal.Signals, is_async: bool) -> None:
    text = """
    async def aspinning(ctx, data):
        await asyncio.sleep(0)
        spinning(ctx, data)

    loop = make()
    loop.send(spawn(loop, waiting, "waiter"), None)
    loop.send(spawn(loop, BEHAVIOR, "spinner"), None)
    previous = signal.getsignal(signal.SIGINT)
    stop = loop.request_stop
    def request_stop():
        stop()
        say("asked")
    loop.request_stop = request_stop
    try:
        loop.run(handle_signals=True)
    except KeyboardInterrupt:
        say("interrupted", loop.statistics().alive, signal.getsignal(signal.SIGINT) is previous)
    """
    with program(text.replace("BEHAVIOR", "aspinning" if is_async else "spinning")) as running:
        running.until("spinning")
        running.signal(number)
        running.until("asked")
        running.signal(signal.SIGINT)
        assert running.end() == (0, "")
        assert set(running.said) == {
            "waiting",
            "spinning",
            "asked",
            "finally",
            "ended waiter NORMAL",
            "ended spinner NORMAL",
            "interrupted 0 True",
        }
        assert running.said[-1] == "interrupted 0 True"


@pytest.mark.guarantee("G30")
@BOTH
@pytest.mark.parametrize("sleeping", [False, True], ids=["any time", "asleep"])
def test_a_second_sigint_does_not_wait_for_coroutines(number: signal.Signals, sleeping: bool) -> None:
    text = """
    loop = make(stop_timeout=80_000)
    spawn(loop, idle, "idler")
    loop.send(spawn(loop, stubborn, "stubborn"), None)
    previous = signal.getsignal(signal.SIGINT)
    try:
        loop.run(handle_signals=True)
    except KeyboardInterrupt:
        say("interrupted", loop.statistics().alive, signal.getsignal(signal.SIGINT) is previous)
    sys.stdout.flush()
    os._exit(0)
    """
    with program(text) as running:
        running.until("waiting")
        running.signal(number)
        running.until("ignored")
        if sleeping:
            running.asleep()
        running.signal(signal.SIGINT)
        assert running.end()[0] == 0
        assert running.said[-1] == "interrupted 0 True"
        assert {"ended idler NORMAL", "ended stubborn NORMAL"} <= set(running.said)


# --- not asked for ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.spec("J11")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("behavior", ["spinning", "aspinning", "alate"])
def test_without_handle_signals_ctrl_c_interrupts_a_behavior(behavior: str) -> None:
    text = """
    async def aspinning(ctx, data):
        spinning(ctx, data)

    async def alate(ctx, data):
        await asyncio.sleep(0)
        spinning(ctx, data)

    loop = make()
    loop.send(spawn(loop, BEHAVIOR, "spinner"), None)
    try:
        loop.run()
    except KeyboardInterrupt:
        say("interrupted", loop.statistics().alive, loop.statistics().ended_panic)
    """
    with program(text.replace("BEHAVIOR", behavior)) as running:
        running.until("spinning")
        running.signal(signal.SIGINT)
        assert running.end() == (0, "")
        assert running.said == ["spinning", "ended spinner NORMAL", "interrupted 0 0"]


@pytest.mark.guarantee("G28")
def test_without_handle_signals_sigterm_is_as_deadly_as_ever() -> None:
    with program(GRACEFUL.format(run="loop.run()")) as running:
        running.until("waiting")
        running.signal(signal.SIGTERM)
        assert running.end() == (-signal.SIGTERM, "")
        assert running.said == ["waiting"]


@pytest.mark.slow
@pytest.mark.guarantee("G28")
@pytest.mark.parametrize("way", ["run()", "run(until_idle=True)", "poll_once()"])
def test_signals_are_left_alone_by_default(way: str) -> None:
    text = """
    def mine(number, frame):
        say("mine", number)

    signal.signal(signal.SIGTERM, mine)
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    def look(ctx, data):
        say([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before)
        os.kill(os.getpid(), signal.SIGTERM)
        ctx.loop.request_stop()

    loop = make()
    loop.send(spawn(loop, look, "looker"), None)
    loop.WAY
    say([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before)
    say(signal.set_wakeup_fd(-1))
    loop.destroy()
    """
    with program(text.replace("WAY", way)) as running:
        assert running.end() == (0, "")
        assert running.said == ["True", "mine 15", "ended looker NORMAL", "True", "-1"]


@pytest.mark.slow
@pytest.mark.guarantee("G28", "G30")
@pytest.mark.parametrize("ending", ["idle", "stop", "SystemExit", "KeyboardInterrupt", "signal"])
def test_handlers_that_were_there_before_are_put_back_however_it_ends(ending: str) -> None:
    text = """
    def mine(number, frame):
        say("mine", number)

    numbers = (signal.SIGINT, signal.SIGTERM)
    signal.signal(signal.SIGTERM, mine)
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def act(ctx, data):
        say(any(signal.getsignal(number) in (mine, signal.SIG_IGN) for number in numbers))
        ending = ENDING
        if ending == "stop":
            ctx.loop.request_stop()
        elif ending == "signal":
            os.kill(os.getpid(), signal.SIGINT)
        elif ending == "SystemExit":
            raise SystemExit(3)
        elif ending == "KeyboardInterrupt":
            raise KeyboardInterrupt

    loop = make()
    loop.send(spawn(loop, act, "actor"), None)
    try:
        loop.run(until_idle=ENDING == "idle", handle_signals=True)
    except BaseException as error:
        say(type(error).__name__)
    say([signal.getsignal(number) for number in numbers] == [signal.SIG_IGN, mine])
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    loop.set_observer(None)
    loop.destroy()
    """
    with program(text.replace("ENDING", repr(ending))) as running:
        assert running.end() == (0, "")
        said = [word for word in running.said if word != "ended actor NORMAL"]
        raised = [ending] if ending in {"SystemExit", "KeyboardInterrupt"} else []
        assert said == ["False", *raised, "True", "mine 15"]


@pytest.mark.guarantee("G28", "G30", "G29")
def test_handling_signals_needs_the_main_thread_and_a_refusal_changes_nothing(loop: Loop) -> None:
    def handlers() -> list[Any]:
        return [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    before = handlers()
    error = in_thread(lambda: loop.run(handle_signals=True))
    assert isinstance(error, InvalidArgumentError)
    assert "main thread" in str(error)
    assert handlers() == before
    # It is still this thread's, open, and can be run.
    seen: list[Any] = []

    def act(ctx: Context[Any]) -> None:
        with pytest.raises(Exception, match="run already"):
            loop.run(handle_signals=True)
        seen.append(handlers())

    call_in(loop, loop.spawn(run_message), act)
    loop.run(until_idle=True)
    assert seen == [before]
    loop.run(until_idle=True, handle_signals=True)
    assert handlers() == before
