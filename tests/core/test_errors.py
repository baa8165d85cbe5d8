"""Every (function, error) pair of the specification, the numbers of the errors, and what their messages say."""

from __future__ import annotations

import ast
import pickle
import socket
import tempfile
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bandstand import errors
from bandstand.core import ActorId, ActorStatus, Interest, Lane, Loop, TimerId
from bandstand.errors import (
    ActorNotLocalError,
    BandstandError,
    InternalError,
    InvalidArgumentError,
    InvalidTimerError,
    IoNotWatchedError,
    IoRegistrationError,
    LoopClosedError,
    MailboxFullError,
    MaxActorsError,
    NoSuchActorError,
    OutOfMemoryError,
)
from tests.core.support import BreakableClock, LoopMaker, fill, idle, python, settle


class Row(NamedTuple):
    """One failure of one function: `provoke` makes the loop it needs and raises."""

    function: str
    error: type[BandstandError]
    code: int
    provoke: Callable[[LoopMaker], object]


Call = Callable[[Loop], object]


def open_(call: Call) -> Callable[[LoopMaker], object]:
    return lambda make_loop: call(make_loop())


def created(**fields: Any) -> Callable[[LoopMaker], object]:
    """With a config, or a clock, that can never work."""
    return lambda make_loop: make_loop(**fields)


class FarClock:
    def now_ns(self) -> int:
        return 1 << 62


def without_config(make_loop: LoopMaker) -> Loop:
    return Loop(config=object())  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose


def max_actors(make_loop: LoopMaker) -> None:
    loop = make_loop(max_actors=2)
    loop.spawn(idle)
    loop.spawn(idle)
    loop.spawn(idle)


def mailbox_full(make_loop: LoopMaker) -> None:
    loop = make_loop()
    actor = loop.spawn(idle, mailbox_cap=5)
    loop.send(actor, 1)
    loop.send(actor, 2)


def fired(make_loop: LoopMaker) -> None:
    loop = make_loop()
    timer = loop.send_after(loop.spawn(idle), 0, "x")
    settle(loop)
    loop.cancel_timer(timer)


def cancelled(make_loop: LoopMaker) -> None:
    loop = make_loop()
    timer = loop.send_after(loop.spawn(idle), 0.01, "x")
    loop.cancel_timer(timer)
    loop.cancel_timer(timer)


def released(make_loop: LoopMaker) -> None:
    loop = make_loop()
    actor = loop.spawn(idle)
    timer = loop.send_after(actor, 0.01, "x")
    loop.stop_actor(actor)
    loop.cancel_timer(timer)


def another_loops_timer(make_loop: LoopMaker) -> None:
    loop, other = make_loop(), make_loop()
    other_timer = other.send_after(other.spawn(idle), 0.01, "x")
    loop.cancel_timer(other_timer)


def never_a_timer(make_loop: LoopMaker) -> None:
    make_loop().cancel_timer(TimerId())


def broken_clock(make_loop: LoopMaker) -> None:
    clock = BreakableClock()
    loop = make_loop(clock=clock)
    clock.break_with(ValueError("the clock has stopped"))
    loop.run()


def watched(make_loop: LoopMaker) -> tuple[Loop, ActorId, int]:
    """A loop, an actor of it, and a descriptor that it watches; both ends of the pipe go with the loop."""
    loop = make_loop()
    actor = loop.spawn(idle)
    one, two = socket.socketpair()
    weakref.finalize(loop, one.close)
    weakref.finalize(loop, two.close)
    loop.watch_fd(one.fileno(), actor, Interest.READ)
    return loop, actor, one.fileno()


def watched_twice(make_loop: LoopMaker) -> None:
    loop, actor, fd = watched(make_loop)
    loop.watch_fd(fd, actor, Interest.READ)


def a_plain_file(make_loop: LoopMaker) -> None:
    loop = make_loop()
    with tempfile.TemporaryFile() as file:
        loop.watch_fd(file.fileno(), loop.spawn(idle), Interest.READ)


def not_open(make_loop: LoopMaker) -> None:
    loop = make_loop()
    loop.watch_fd(987_654, loop.spawn(idle), Interest.READ)


def unwatched_twice(make_loop: LoopMaker) -> None:
    loop, _, fd = watched(make_loop)
    loop.unwatch_fd(fd)
    loop.unwatch_fd(fd)


def linked_with_itself(make_loop: LoopMaker) -> None:
    loop = make_loop()
    actor = loop.spawn(idle)
    loop.link(actor, actor)


def mailbox_full_async(make_loop: LoopMaker) -> None:
    loop = make_loop()
    actor = loop.spawn(idle, mailbox_cap=5)
    loop.send_async(actor, 1)
    loop.send_async(actor, 2)


# A row for each line of 000 §1.2, in its order, with those of our own calls among their kin; NO_MEMORY has a test of its own below: it needs a process of its own.
# A row for each line of 000 §1.2 that is not about an id or a closed loop; NO_MEMORY has a test of its own below: it needs a process of its own.
ROWS = (
    Row("loop_create", InvalidArgumentError, -3, created(max_actors=0)),
    Row("loop_create without a config", InvalidArgumentError, -3, without_config),
    Row("loop_create with a cap of 4", InvalidArgumentError, -3, created(default_mailbox_cap=4)),
    Row("loop_create without a clock", InvalidArgumentError, -3, created(clock=object())),
    Row("loop_create, a clock past 62 bits", InvalidArgumentError, -3, created(clock=FarClock())),
    Row("run", InternalError, -1, broken_clock),
    Row("spawn", MaxActorsError, -11, max_actors),
    Row("spawn nothing", InvalidArgumentError, -3, open_(lambda loop: loop.spawn(None))),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
    Row("spawn, cap of 4", InvalidArgumentError, -3, open_(lambda loop: loop.spawn(idle, mailbox_cap=4))),
    Row("send", MailboxFullError, -7, mailbox_full),
    Row("send_async", MailboxFullError, -7, mailbox_full_async),
    Row("link with itself", InvalidArgumentError, -3, linked_with_itself),
    Row("cancel_timer, fired", InvalidTimerError, -8, fired),
    Row("cancel_timer, cancelled", InvalidTimerError, -8, cancelled),
    Row("cancel_timer, gone with its actor", InvalidTimerError, -8, released),
    Row("cancel_timer, another loop's", InvalidTimerError, -8, another_loops_timer),
    Row("cancel_timer, never set", InvalidTimerError, -8, never_a_timer),
    Row("cancel_timer, no timer", InvalidTimerError, -8, open_(lambda loop: loop.cancel_timer(7))),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
    Row("watch_fd, watched", IoRegistrationError, -9, watched_twice),
    Row("watch_fd, a plain file", IoRegistrationError, -9, a_plain_file),
    Row("watch_fd, not open", IoRegistrationError, -9, not_open),
    Row("watch_fd, no fd", InvalidArgumentError, -3, open_(lambda loop: loop.watch_fd(-1, 1, Interest.READ))),
    Row("unwatch_fd, twice", IoNotWatchedError, -10, unwatched_twice),
    Row("unwatch_fd, never watched", IoNotWatchedError, -10, open_(lambda loop: loop.unwatch_fd(5))),
)


def check_error(error: BandstandError, kind: type[BandstandError], code: int) -> None:
    assert (type(error), error.code) == (kind, code)
    assert len(str(error)) > 20, "an error says in a sentence what happened"


@pytest.mark.spec("J12", "J1", "J10")
@pytest.mark.guarantee("G16")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.function}-{row.error.__name__}")
def test_each_function_fails_as_specified(make_loop: LoopMaker, row: Row) -> None:
    with pytest.raises(BandstandError) as caught:
        row.provoke(make_loop)
    check_error(caught.value, row.error, row.code)


# Every call that takes an id, with an actor of the same loop where it needs a second one.
CALLS: dict[str, Callable[[Loop, ActorId, Any], object]] = {
    "spawn": lambda loop, mine, id_: loop.spawn(idle, supervisor=id_),
    "send": lambda loop, mine, id_: loop.send(id_, "x"),
    "send_async": lambda loop, mine, id_: loop.send_async(id_, "x"),
    "send_after": lambda loop, mine, id_: loop.send_after(id_, 0.001, "x"),
    "stop_actor": lambda loop, mine, id_: loop.stop_actor(id_),
    "fail_actor": lambda loop, mine, id_: loop.fail_actor(id_),
    "kill_actor": lambda loop, mine, id_: loop.kill_actor(id_),
    "status": lambda loop, mine, id_: loop.status(id_),
    "monitor": lambda loop, mine, id_: loop.monitor(mine, id_),
    "monitor by": lambda loop, mine, id_: loop.monitor(id_, mine),
    "link": lambda loop, mine, id_: loop.link(id_, mine),
    "link with": lambda loop, mine, id_: loop.link(mine, id_),
    "unlink": lambda loop, mine, id_: loop.unlink(id_, mine),
    "trap_exits": lambda loop, mine, id_: loop.trap_exits(id_),
    "watch_fd": lambda loop, mine, id_: loop.watch_fd(0, id_, Interest.READ),
}
WRONG_IDS: dict[str, tuple[type[BandstandError], int]] = {
    "stale": (NoSuchActorError, -5),
    "stale number": (NoSuchActorError, -5),
    "unused number": (NoSuchActorError, -5),
    "zero": (NoSuchActorError, -5),
    "past 64 bits": (NoSuchActorError, -5),
    "foreign": (ActorNotLocalError, -6),
    "foreign number": (ActorNotLocalError, -6),
    "stale and foreign": (ActorNotLocalError, -6),
    "text": (InvalidArgumentError, -3),
    "float": (InvalidArgumentError, -3),
    "none": (InvalidArgumentError, -3),
}
# An id remembers how its actor has ended: that can be asked, and linked with and monitored; and without a supervisor, there is none.
ALLOWED = {
    ("status", "stale"),
    ("monitor", "stale"),
    ("link with", "stale"),
    ("unlink", "stale"),
    ("spawn", "none"),
}


@pytest.mark.spec("J12", "J1", "J2", "J10")
@pytest.mark.guarantee("G1", "G2", "G35")
@pytest.mark.parametrize("wrong", WRONG_IDS)
@pytest.mark.parametrize("call", CALLS)
def test_each_function_refuses_wrong_ids(make_loop: LoopMaker, call: str, wrong: str) -> None:
    loop, other = make_loop(), make_loop()
    stale, foreign, gone = loop.spawn(idle), other.spawn(idle), other.spawn(idle)
    loop.stop_actor(stale)
    other.stop_actor(gone)
    mine = loop.spawn(idle)
    ids: dict[str, Any] = {
        "stale": stale,
        "stale number": int(stale),
        "unused number": int(mine) + 7,
        "zero": 0,
        "past 64 bits": 1 << 70,
        "foreign": foreign,
        "foreign number": int(foreign),
        "stale and foreign": gone,
        "text": "mine",
        "float": 2.5,
        "none": None,
    }
    if (call, wrong) in ALLOWED:
        CALLS[call](loop, mine, ids[wrong])
        return
    with pytest.raises(BandstandError) as caught:
        CALLS[call](loop, mine, ids[wrong])
    check_error(caught.value, *WRONG_IDS[wrong])
    books = loop.statistics()
    is_send = call.startswith("send") and WRONG_IDS[wrong][0] is not InvalidArgumentError
    assert books.sent == books.refused == is_send, "a call that can never work is no send"
    assert (books.timers_set, books.fds, books.alive, books.spawned) == (0, 0, 1, 2)
    assert other.status(foreign) is ActorStatus.RUNNING


CLOSED_CALLS: dict[str, Callable[[Loop, ActorId, Any], object]] = {
    **{name: call for name, call in CALLS.items() if not name.startswith(("status", "monitor", "unlink"))},
    "run": lambda loop, mine, id_: loop.run(),
    "poll_once": lambda loop, mine, id_: loop.poll_once(),
}


@pytest.mark.spec("J12", "J1", "J10")
@pytest.mark.guarantee("G26")
@pytest.mark.parametrize("end", [Loop.request_stop, Loop.destroy], ids=["request_stop", "destroy"])
@pytest.mark.parametrize("call", CLOSED_CALLS)
def test_a_closed_loop_refuses_each_function(loop: Loop, call: str, end: Callable[[Loop], None]) -> None:
    mine, other = loop.spawn(idle), loop.spawn(idle)
    end(loop)
    with pytest.raises(BandstandError) as caught:
        CLOSED_CALLS[call](loop, mine, other)
    check_error(caught.value, LoopClosedError, -4)


NO_MEMORY = """
import gc, sys
import _testcapi
from bandstand.core import Loop
from bandstand.errors import OutOfMemoryError

def idle(ctx, data): pass

def attempt(act, nth):
    # Exactly the nth allocation from here on fails; a free list may serve some of what is asked for.
    try:
        _testcapi.set_nomemory(nth, nth + 1)
        try:
            act()
        finally:
            _testcapi.remove_mem_hooks()
    except OutOfMemoryError as error:
        assert error.code == -2, error.code
        return "told"
    except MemoryError:
        # Before the call had begun its work: interpreted, even asking for the thread's number allocates.
        return "early"
    return ""

def shape(loop):
    books = loop.statistics()
    return books.alive, books.spawned, books.timers_set, books.timers_pending, books.waiting

gc.disable()
failed = {"spawn": 0, "child": 0, "send_after": 0}
keep = []
kept = [None]
for nth in range(60):
    loop = Loop()
    boss = loop.spawn(idle)
    keep.append([loop.spawn(idle) for _ in range(nth % 7)])

    # What is returned goes into a place that is there already: keeping it needs no memory.
    def spawn(): kept[0] = loop.spawn(idle)
    def child(): kept[0] = loop.spawn(idle, supervisor=boss)
    def send_after(): kept[0] = loop.send_after(boss, 0.005, "x")

    for what, act in (("spawn", spawn), ("child", child), ("send_after", send_after)):
        before = shape(loop)
        outcome = attempt(act, nth)
        failed[what] += outcome == "told"
        if outcome:
            assert shape(loop) == before, (what, nth, before, shape(loop))
    # Nothing is broken: it still spawns, sends, fires and ends everybody.
    seen = []
    last = loop.spawn(lambda ctx, data: seen.append(data))
    loop.send(last, 1)
    loop.poll_once()
    assert seen == [1]
    alive = loop.statistics().alive
    loop.destroy()
    books = loop.statistics()
    assert books.alive == 0 and books.ended_normal == books.spawned, books
print(failed)
"""


@pytest.mark.slow
@pytest.mark.spec("J12")
def test_no_memory_is_an_error_and_changes_nothing() -> None:
    """NO_MEMORY of spawn and send_after: single allocations really fail, one after the other."""
    pytest.importorskip("_testcapi", reason="this Python has no _testcapi to make an allocation fail")
    done = python(NO_MEMORY)
    assert done.returncode == 0, done.stderr[-2000:]
    failed: dict[str, int] = ast.literal_eval(done.stdout)
    assert min(failed.values()) > 0, f"no allocation of these ever failed: {failed}"


# --- the tree ---------------------------------------------------------------------------------------------------------

CODES = {
    "InternalError": -1,
    "OutOfMemoryError": -2,
    "InvalidArgumentError": -3,
    "LoopClosedError": -4,
    "NoSuchActorError": -5,
    "ActorNotLocalError": -6,
    "MailboxFullError": -7,
    "InvalidTimerError": -8,
    "IoRegistrationError": -9,
    "IoNotWatchedError": -10,
    "MaxActorsError": -11,
}
OUR_OWN_CODES = {
    "WrongThreadError": -100,
    "LoopBusyError": -101,
    "InvalidVerdictError": -102,
    "MailboxOverrunError": -103,
    "ActorFailedError": -104,
    "ActorKilledError": -105,
    "LinkBrokenError": -106,
    "StartError": -107,
    "RestartLimitError": -108,
    "NoSuchChildError": -109,
    "ChildStateError": -110,
    "MaxChildrenError": -111,
}


CATEGORIES = {
    BandstandError,
    errors.AskError,
    errors.BusError,
    errors.ConfigError,
    errors.JournalError,
    errors.LoopError,
    errors.PodError,
    errors.ScopeError,
    errors.SendError,
    errors.SupervisionError,
    errors.TryAgainError,
}


def kinds() -> dict[str, type[BandstandError]]:
    """Return the classes that are raised, by name."""
    return {
        name: kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, BandstandError) and kind not in CATEGORIES
    }


@pytest.mark.spec("J12")
def test_the_specifications_numbers_each_on_its_own_type() -> None:
    found = {name: kind.code for name, kind in kinds().items() if kind.code > -100}
    assert found == CODES


@pytest.mark.spec("J12")
def test_our_own_numbers_are_past_the_specifications_and_no_two_share_one() -> None:
    codes = [kind.code for kind in kinds().values()]
    assert len(set(codes)) == len(codes)
    found = {name: kind.code for name, kind in kinds().items() if name not in CODES}
    # A number that was given out once keeps its meaning; new kinds only add to them.
    assert found | OUR_OWN_CODES == found
    assert max(found.values()) <= -100


def test_the_drawing_at_the_top_of_the_file_is_the_tree() -> None:
    text = ast.get_docstring(ast.parse(Path(errors.__file__).read_text("utf-8"))) or ""
    drawn: dict[str, tuple[str, int]] = {}
    category = ""
    for line in text.splitlines():
        words = line.replace("│", " ").split()
        if not words or words[0] not in {"├──", "└──"}:
            continue
        if line.startswith(("    ├", "    └")):
            category = words[1]
        else:
            drawn[words[1]] = (category, int(words[2]))
    assert {name: code for name, (_, code) in drawn.items()} == {
        name: kind.code for name, kind in kinds().items()
    }
    for name, (category, _) in drawn.items():
        assert issubclass(kinds()[name], getattr(errors, category))


def test_every_error_is_in_one_category() -> None:
    categories = tuple(CATEGORIES - {BandstandError, errors.TryAgainError})
    also_a_send_error = {"PodDownError", "PodGoneError"}
    for name, kind in kinds().items():
        count = sum(issubclass(kind, category) for category in categories)
        assert count == (2 if name in also_a_send_error else 1), name


def test_names_of_errors_end_in_error() -> None:
    # Raised in an init to end it without a failure, like StopIteration.
    assert {name for name in kinds() if not name.endswith("Error")} == {"IgnoreChild"}


def test_errors_after_which_a_retry_may_help_have_one_base() -> None:
    found = {name for name, kind in kinds().items() if issubclass(kind, errors.TryAgainError)}
    assert found == {
        "ActorRestartingError",
        "JournalFullError",
        "JournalOverloadedError",
        "MailboxFullError",
        "MessageDroppedError",
        "NodeGoneError",
        "PodDownError",
        "PodTimeoutError",
        "TargetEndedError",
    }


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(OutOfMemoryError, MemoryError)
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(NoSuchActorError, LookupError)
    assert issubclass(ActorNotLocalError, LookupError)
    assert issubclass(errors.IoRegistrationError, OSError)
    assert issubclass(errors.NoSuchChildError, LookupError)


@pytest.mark.parametrize("name", sorted(kinds()))
def test_errors_survive_pickling(name: str) -> None:
    error = kinds()[name]("what happened")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), again.args, str(again), again.code) == (
        type(error),
        error.args,
        str(error),
        error.code,
    )


# --- what they say ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["ingest", None])
def test_mailbox_full_says_who_how_deep_and_what_to_do(loop: Loop, name: str | None) -> None:
    actor = loop.spawn(idle, name=name, mailbox_cap=7)
    depth = fill(loop, actor, Lane.CONTROL)
    with pytest.raises(MailboxFullError) as caught:
        loop.send(actor, "x", lane=Lane.CONTROL)
    for error in (caught.value, pickle.loads(pickle.dumps(caught.value))):
        found = (error.actor, error.name, error.lane, error.depth, error.cap)
        assert found == (int(actor), name, "CONTROL", depth, 7)
        for part in (repr(actor), "CONTROL", "3 messages", "cap 7", "try_send", "a larger mailbox"):
            assert part in str(error)
        assert ("'ingest'" in str(error)) == (name is not None)
        assert "None" not in str(error)
