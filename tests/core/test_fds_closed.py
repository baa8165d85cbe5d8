"""Descriptors that are closed behind the runtime's back, each case in a process of its own, on both event loops.

What must not happen is that the process dies, spins or hangs, so each program says what its actors saw and must end with
code 0, in silence.
"""

from __future__ import annotations

import pytest

from tests.core.support import python

HOSTS = ("asyncio", "uvloop")

# Each program has a loop with a sweep of 10 ms on the given event loop, an owner that notes what it is told, and a `deed`
# actor that does what a message says, and a pipe. `run()` returns when nothing is watched any more.
PRELUDE = """
import asyncio, os, random, threading
import {host}
from bandstand.core import Context, Interest, IoEvent, Loop, LoopConfig, Readiness
from bandstand.errors import IoRegistrationError

READ, WRITE = Interest.READ, Interest.WRITE
loop = Loop(LoopConfig(loop_factory={host}.new_event_loop, fd_sweep_period=0.01))

def words(readiness):
    return "|".join(one.name for one in Readiness if one in readiness)

def deed(ctx, data):
    return data()

def noting(log, then=lambda ctx, event: None):
    def owner(ctx, event):
        log.append(words(event.readiness))
        then(ctx, event)
    return owner

def leave(ctx, event):
    ctx.loop.unwatch_fd(event.fd)

def after(ms, act):
    loop.send_after(doer, ms / 1000, act)

def pipe():
    read, write = os.pipe()
    os.set_blocking(read, False)
    return read, write

def finish(*what):
    print(*what)
    books = loop.statistics()
    assert books.sent == books.handled + books.dead + books.dropped + books.waiting + books.refused, books
    assert books.fds == 0, books
    assert books.ended_panic == 0, books
    assert books.wakeups < 2000, "it spun: %s" % (books,)
    loop.destroy()

doer = loop.spawn(deed)
log = []
read, write = pipe()
"""


def check(program: str, host: str, said: str) -> None:
    if host == "uvloop":
        pytest.importorskip("uvloop")
    ending = "" if "\nfinish(" in program else "\nloop.run(until_idle=True)\nfinish(log)\n"
    done = python(PRELUDE.format(host=host) + program + ending)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [said], done.stderr
    assert done.stderr == ""


pytestmark = [
    pytest.mark.spec("J14"),
    pytest.mark.guarantee("G36"),
    pytest.mark.slow,
    pytest.mark.parametrize("host", HOSTS),
]


# What each program does, and the line that it prints.
PROGRAMS: dict[str, tuple[str, str]] = {
    "closed_while_its_async_owner_is_in_flight": (
        "['READ', 'slept', 'ERROR']",
        """

async def owner(ctx, event):
    log.append(words(event.readiness))
    if Readiness.READ in event.readiness:
        after(1, lambda: os.close(read))
        await asyncio.sleep(0.05)
        log.append("slept")

loop.watch_fd(read, loop.spawn(owner), READ)
os.write(write, b"x")
""",
    ),
    "closed_by_another_thread_while_the_loop_sleeps": (
        "['ERROR']",
        """
asleep = threading.Event()
loop.watch_fd(read, loop.spawn(noting(log)), READ)

def close():
    assert asleep.wait(20)
    os.close(read)

thread = threading.Thread(target=close)
thread.start()
loop.send(doer, asleep.set)
loop.run(until_idle=True)
thread.join()
finish(log)
""",
    ),
    # The kernel goes on reporting the file under the closed number.
    "a_closed_descriptor_whose_duplicate_lives_on": (
        "['ERROR', b'x']",
        """
copy = os.dup(read)
loop.watch_fd(read, loop.spawn(noting(log)), READ)

def close():
    os.close(read)
    os.write(write, b"x")
    # The wake-ups that come now are counted: a storm shows in finish().
    after(100, lambda: log.append(os.read(copy, 1)))

after(5, close)
""",
    ),
    "the_whole_loop_ends_with_closed_descriptors_watched": (
        "[]",
        """
pipes = [pipe() for _ in range(300)]
owner = loop.spawn(noting(log))
for read, _ in pipes:
    loop.watch_fd(read, owner, READ)

def act():
    for read, _ in pipes:
        os.close(read)
    loop.request_stop()

loop.send(doer, act)
loop.run()
finish(log)
""",
    ),
}


@pytest.mark.parametrize("case", PROGRAMS)
def test_closed_descriptors(host: str, case: str) -> None:
    said, program = PROGRAMS[case]
    check(program, host, said)
