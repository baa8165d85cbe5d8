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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_hundred_rounds_of_closing_and_opening(host: str, seed: int) -> None:
    """Whatever is closed and opened again at whatever moment: each owner hears READ only of its own file, ERROR once."""
    check(
        f"""
rng = random.Random({seed})
rounds = 0
faults = []
told = []

class Owner:
    def __init__(self, read, write):
        self.read, self.write, self.marks, self.errors, self.closed = read, write, 0, 0, False

    def __call__(self, ctx, event):
        if event.fd != self.read:
            faults.append("another's number")
        if event.readiness == Readiness.ERROR:
            self.errors += 1
            if not self.closed:
                faults.append("an error for an open descriptor")
            told.append(self)
            return
        if self.closed:
            faults.append("readiness after it was closed")
            return
        data = os.read(event.fd, 1)
        if data != b"%c" % (id(self) % 251):
            faults.append("another's data")
        self.marks += 1

    def mark(self):
        os.write(self.write, b"%c" % (id(self) % 251))

owners = []
opened = []

def new_owner():
    read, write = pipe()
    owner = Owner(read, write)
    loop.watch_fd(read, loop.spawn(owner), READ)
    owners.append(owner)
    opened.append(owner)
    return owner

def go_round():
    global rounds
    rounds += 1
    for _ in range(rng.randrange(1, 4)):
        act = rng.randrange(5)
        if act == 0 or not opened:
            new_owner()
        elif act == 1:
            rng.choice(opened).mark()
        else:
            owner = opened.pop(rng.randrange(len(opened)))
            if rng.random() < 0.5:
                owner.mark()
            if rng.random() < 0.2:
                os.dup(owner.read)
            owner.closed = True
            os.close(owner.read)
            if rng.random() < 0.3:
                os.close(owner.write)
            if rng.random() < 0.7:
                new_owner()
    if rounds < 100:
        after(rng.choice((0, 0, 1, 3)), go_round)
    else:
        for owner in opened:
            owner.closed = True
            os.close(owner.read)

loop.send(doer, go_round)
loop.run(until_idle=True)
finish(rounds, faults, len(owners) > 50, {{owner.errors for owner in owners}})
""",
        host,
        "100 [] True {1}",
    )
