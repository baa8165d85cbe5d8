"""Signals that begin a shutdown, and hurry it, in real processes driven in both ways."""

from __future__ import annotations

import signal
import threading

import pytest

from bandstand.errors import InvalidArgumentError
from bandstand.shutdown import GracefulShutdown
from tests.core.test_signals import program
from tests.shutdown.conftest import LoopMaker

pytestmark = pytest.mark.slow

BAND = """
from bandstand.shutdown import GracefulShutdown, ShutdownPhase

async def works(ctx, data):
    say("working")
    await asyncio.sleep(0.05)
    say("worked", data)

def blocks(ctx, data):
    say("blocking")
    while True:
        pass

async def ignores(ctx, data):
    until = asyncio.get_running_loop().time() + 1
    say("ignoring")
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            pass

loop = Loop(LoopConfig(loop_factory=new_event_loop))
shutdown = GracefulShutdown(loop, deadline=3600)
begin = shutdown.begin

def asked(reason):
    begin(reason)
    if BEHAVIOR is blocks:
        say("asked")

shutdown.begin = asked
actor = loop.spawn(BEHAVIOR, name="player")
loop.send(actor, 1)
loop.send(actor, 2)
before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

def run():
    with shutdown.on_signals():
        loop.run()

async def ride():
    async with loop:
        with shutdown.on_signals():
            await shutdown.wait()

def drive():
    if WAY == "run":
        run()
    else:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(ride())

try:
    drive()
except KeyboardInterrupt:
    # What asyncio's runner makes of its own handler after that is its own matter.
    say("interrupted")
    sys.exit(0)
say("restored", [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before)
if shutdown.report is not None:
    say(str(shutdown.report).partition(chr(10))[0].rpartition(",")[0].rpartition(",")[0])
"""


def band(behavior: str, way: str) -> str:
    return BAND.replace("BEHAVIOR", behavior).replace("WAY", repr(way))


WAYS = pytest.mark.parametrize("way", ["run", "ride"])


@pytest.mark.guarantee("G265", "G262")
@WAYS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_signal_begins_a_shutdown(way: str, number: signal.Signals) -> None:
    with program(band("works", way)) as running:
        running.until("working")
        running.signal(number)
        assert running.end() == (0, "")
        assert running.said == [
            "working",
            "worked 1",
            "working",
            "worked 2",
            "restored True",
            f"shutdown ({number.name}): clean",
        ]


@pytest.mark.guarantee("G265")
@WAYS
def test_a_second_ctrl_c_kills_actors(way: str) -> None:
    with program(band("ignores", way)) as running:
        running.until("ignoring")
        running.signal(signal.SIGTERM)
        running.asleep()
        running.signal(signal.SIGINT)
        assert running.end()[0] == 0
        assert running.said[-2:] == ["restored True", "shutdown (SIGTERM): not clean"]


@pytest.mark.guarantee("G265")
@WAYS
def test_a_second_ctrl_c_interrupts_a_handler(way: str) -> None:
    with program(band("blocks", way)) as running:
        running.until("blocking")
        running.signal(signal.SIGTERM)
        running.until("asked")
        running.signal(signal.SIGINT)
        code, errors = running.end()
        assert code == 0, errors
        assert running.said == ["blocking", "asked", "interrupted"]


def test_signals_need_the_main_thread(make_loop: LoopMaker) -> None:
    refused: list[str] = []
    shutdown = GracefulShutdown(make_loop())

    def elsewhere() -> None:
        try:
            with shutdown.on_signals():
                pass
        except InvalidArgumentError as error:
            refused.append(str(error))

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert len(refused) == 1
    assert "main thread" in refused[0]
