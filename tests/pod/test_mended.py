"""What once went wrong with troupes, as their users saw it."""

from __future__ import annotations

import asyncio
import logging
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import PodFailedError, PodTimeoutError
from bandstand.pod import ThreadModel, Troupe, pod

PATIENCE = 60  # seconds to wait for what must come

pytestmark = pytest.mark.real_time(reason="threads and processes are real")


class Glass(Actor):
    """Breaks when it is dropped."""

    @tell
    def drop(self) -> None:
        raise RuntimeError("shards")

    @ask
    def whole(self) -> bool:
        return True


class Shelf(Troupe):
    """One glass, which nobody replaces."""

    glass = pod().expose(Glass)


def broken(shelf: Shelf) -> None:
    """Play until the glass is broken, in a block."""
    with shelf:
        shelf.glass.drop()
        shelf.wait(timeout=PATIENCE)


@pytest.mark.guarantee("G158")
def test_a_troupe_of_which_nobody_is_left_but_failures_has_failed() -> None:
    shelf = Shelf()
    shelf.glass.drop.try_send()
    with pytest.raises(PodFailedError, match=r"pod 'glass', whose actor 'glass' failed: .*shards"):
        shelf.play()
    assert shelf.failure is not None


@pytest.mark.guarantee("G158")
def test_and_so_it_has_in_a_block(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "bandstand.pod"), pytest.raises(PodFailedError, match="shards"):
        broken(Shelf())
    # With its traceback: where, and not only what.
    assert 'raise RuntimeError("shards")' in caplog.text


def test_a_troupe_that_does_not_play_yet_is_waited_for_and_then_says_so() -> None:
    class Hasty(Troupe):
        glass = pod(down_timeout=0.02).expose(Glass)

    with pytest.raises(PodTimeoutError, match="was not back within 20 ms"):
        Hasty().glass.whole.blocking()


class Press(Actor):
    """Prints as much as one wants."""

    @ask
    def print(self, size: int) -> bytes:
        return bytes(size)

    @ask
    def is_there(self) -> bool:
        return True


class Printer(Troupe):
    """A press, in a process of its own."""

    press = pod(thread=ThreadModel.PROCESS).role(ask_timeout=PATIENCE).expose(Press)


@pytest.mark.guarantee("G165")
def test_an_answer_that_takes_its_time_is_written_to_its_end_before_its_process_ends() -> None:
    size = 20_000_000

    async def main() -> int:
        async with Printer() as printer:
            page = asyncio.ensure_future(printer.press.print(size))
            # Its answer is a small one, and comes while the other is being written.
            assert await printer.press.is_there()
            assert not page.done()
        return len(await page)

    assert asyncio.run(main()) == size


STUCK = """
import time
from bandstand import Actor
from bandstand.pod import ThreadModel, Troupe, pod


class Clock(Actor):
    def on_start(self) -> None:
        self.after(0.001, self.tick)

    def tick(self) -> None:
        print("stuck", flush=True)
        while True:
            time.sleep(1000)


class Tower(Troupe):
    stop_timeout = 0.2
    clock = pod(thread=ThreadModel.MAIN, stop_timeout=0.1).of(Clock)


if __name__ == "__main__":
    Tower().play()
"""


@pytest.mark.once
@pytest.mark.guarantee("G165")
def test_sigterm_ends_a_program_whose_main_pod_is_stuck(tmp_path: Path) -> None:
    program = tmp_path / "tower.py"
    program.write_text(STUCK, "utf-8")
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "stuck\n"
        child.send_signal(signal.SIGTERM)
        _, said = child.communicate(timeout=PATIENCE)
    assert child.returncode == 1
    assert "PodTimeoutError: the main pod of troupe 'Tower' did not end in time" in said
