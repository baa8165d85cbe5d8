"""Background work: a coroutine, a reply or a thread, whose result comes back as a message."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, Signal, Work, ask, is_alive, tell
from bandstand.core import ExitReason
from bandstand.errors import BandstandError, InvalidArgumentError, LoopBusyError, TargetEndedError
from tests.actor.answers import answer
from tests.actor.players import PATIENCE, Book, Noter, Puppet, spin, turns
from tests.core.support import Boom, RecordingObserver, settle

pytestmark = pytest.mark.guarantee("G69")

LoopMaker = Callable[..., ActorSystem]


async def seven() -> int:
    await turns()
    return 7


async def at_once() -> int:
    return 7


async def boom() -> int:
    await turns()
    raise Boom("work")


async def forever(book: Book) -> None:
    book.append("begun")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        book.append("cancelled")
        raise


def start(work: Callable[[], Any], *hooks: str) -> Callable[[Puppet], Work]:
    """Have a puppet start work, with its method `write` for the named callbacks."""

    def deed(me: Puppet) -> Work:
        return me.background(work(), **dict.fromkeys(hooks, me.write))

    return deed


# --- results ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [seven, at_once])
def test_a_result_comes_back_as_a_message(loop: ActorSystem, work: Callable[[], Any], book: Book) -> None:
    """On the lane of the method, if that is declared."""

    def begin(me: Puppet) -> None:
        me.background(work())
        for hook in (me.write, me.note, me.urgent):
            me.background(work(), then=hook)

    handle = loop.spawn(Puppet, book)
    handle.do(begin)
    handle.note("meanwhile")
    loop.run(until_idle=True)
    assert sorted(book, key=str) == [(7,), 7, 7, "meanwhile"]
    assert book[0] in {"meanwhile", 7}
    assert is_alive(handle)
    assert loop.statistics().alive == 1


@pytest.mark.parametrize("hooks", [(), ("then",)])
def test_an_error_without_failed_fails_the_actor(
    loop: ActorSystem, diary: RecordingObserver, hooks: tuple[str, ...], caplog: pytest.LogCaptureFixture
) -> None:
    book: Book = []
    handle = loop.options(name="worker").spawn(Puppet, book)
    handle.do(start(boom, *hooks))
    loop.run(until_idle=True)
    assert book == []
    assert not is_alive(handle)
    assert diary.stopped[-1][1] is ExitReason.PANIC
    assert "Boom" in caplog.text
    assert loop.statistics().alive == 0


async def test_an_ask_of_a_failed_actor_has_the_error_of_its_work_as_cause(loop: ActorSystem) -> None:
    handle = loop.spawn(Puppet, [])
    held = asyncio.Event()
    handle.do(start(boom))
    handle.do_slowly(lambda me: held.wait())
    await turns(10)
    reply = handle.entries()  # behind the failure, which waits in the mailbox
    held.set()
    with pytest.raises(TargetEndedError) as caught:
        await reply
    assert isinstance(caught.value.__cause__, Boom)


def test_then_may_be_a_coroutine_function(loop: ActorSystem, book: Book) -> None:
    def begin(me: Puppet) -> None:
        async def finish(result: int) -> None:
            await turns()
            book.append(("finished", result))

        me.background(seven(), then=finish)

    loop.spawn(Puppet, book).do(begin)
    loop.run(until_idle=True)
    assert book == [("finished", 7)]


def test_an_error_in_then_fails_the_actor(loop: ActorSystem, diary: RecordingObserver, book: Book) -> None:
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: me.background(seven(), then=me.fail, failed=me.write))
    loop.run(until_idle=True)
    assert book == []
    assert not is_alive(handle)


def test_a_reply_can_be_awaited_in_the_background(loop: ActorSystem, book: Book) -> None:
    other = loop.spawn(Noter, [1, 2, 3])
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: me.background(other.count(), then=me.write))
    loop.run(until_idle=True)
    assert book == [(3,)]


async def test_a_thread_can_be_awaited_in_the_background(loop: ActorSystem, book: Book) -> None:
    main = threading.get_ident()
    gate = threading.Event()

    def blocking() -> bool:
        gate.wait(PATIENCE)
        return threading.get_ident() != main

    handle = loop.spawn(Puppet, book)
    arrived = asyncio.Event()

    def begin(me: Puppet) -> None:
        def then(result: bool) -> None:
            me.write(result)
            arrived.set()

        me.background(asyncio.to_thread(blocking), then=then)

    handle.do(begin)
    assert await handle.entries() == []  # the actor handles messages meanwhile
    handle.note("meanwhile")
    gate.set()
    await arrived.wait()
    assert book == ["meanwhile", (True,)]


# --- cancel -----------------------------------------------------------------------------------------------------------------


async def test_cancelled_work_sends_no_message(loop: ActorSystem, book: Book) -> None:
    works: list[Work] = []

    def begin(me: Puppet) -> None:
        works.append(me.background(forever(book), then=me.write, failed=me.write))

    handle = loop.spawn(Puppet, book)
    handle.do(begin)
    await handle.entries()
    await turns()
    assert book == ["begun"]
    before = works[0].is_done
    assert (before, works[0].cancel(), works[0].cancel(), works[0].is_done) == (False, True, False, True)
    await turns()
    assert book == ["begun", "cancelled"]
    assert is_alive(handle)
    assert loop.statistics().alive == 1


@pytest.mark.slow
@pytest.mark.parametrize("is_by_hand", [False, True])
def test_work_that_is_cancelled_at_once_leaves_no_warning(loop: ActorSystem, is_by_hand: bool) -> None:
    # Warnings are errors here: "coroutine was never awaited" is one.
    book: Book = []
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: me.background(forever(book), then=me.write).cancel())
    if is_by_hand:
        spin(loop)
    else:
        loop.run(until_idle=True)
    gc.collect()
    assert book in ([], ["begun", "cancelled"])
    assert is_alive(handle)


async def test_a_task_cancelled_by_its_owner_counts_as_a_failure(loop: ActorSystem, book: Book) -> None:
    """The actor has not cancelled the work and still expects a result."""
    task = asyncio.ensure_future(asyncio.Event().wait())
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: me.background(task, then=me.write, failed=me.write))
    await handle.entries()
    await turns()
    task.cancel()
    await turns(10)
    assert book or not is_alive(handle)


# --- end of the actor -------------------------------------------------------------------------------------------------------

ENDS: dict[str, Callable[[Puppet], None]] = {
    "stop": lambda handle: handle.stop(),
    "drain": lambda handle: handle.stop(drain=True),
    "kill": lambda handle: handle.kill(),
    "crash": lambda handle: handle.do(lambda me: me.fail()),
}


@pytest.mark.guarantee("G66")
@pytest.mark.parametrize("end", ENDS)
async def test_work_is_cancelled_when_its_actor_ends(loop: ActorSystem, end: str, book: Book) -> None:
    handle = loop.spawn(Puppet, book)
    handle.do(lambda me: me.background(forever(book), then=me.write, failed=me.write))
    await handle.entries()
    await turns()
    ENDS[end](handle)
    await handle.ended()
    await turns(6)
    assert book == ["begun", "cancelled"]
    assert loop.statistics().alive == 0


@pytest.mark.slow
@pytest.mark.parametrize("end", ["never run", "stop", "refused"])
def test_work_that_never_begins_leaves_no_warning(make_loop: LoopMaker, end: str) -> None:
    """The coroutine is closed, also if actor and work refer to each other. Python would warn, and warnings are errors here."""
    loop, book = make_loop(), list[Any]()

    class Keeping(Puppet):
        def on_start(self) -> None:
            if end != "refused":
                self.kept = self.background(forever(self.book), then=self.write)

        @tell
        def start_work(self) -> None:
            self.stop()
            with pytest.raises(BandstandError):
                self.background(forever(self.book))

    for _ in range(3):
        handle = loop.spawn(Keeping, book)
        if end == "stop":
            handle.stop()
        elif end == "refused":
            handle.start_work()
    if end != "never run":
        settle(loop)
    loop.destroy()
    gc.collect()
    assert book == []


def test_work_needs_a_running_actor(loop: ActorSystem) -> None:
    class Early(Puppet):
        def __init__(self, book: Book) -> None:
            super().__init__(book)
            work = seven()
            with pytest.raises(LoopBusyError):
                self.background(work)
            work.close()

    loop.spawn(Early, [])


async def test_work_shows_in_the_tree_below_its_actor(loop: ActorSystem) -> None:
    handle = loop.options(name="worker").spawn(Puppet, [])
    handle.do(lambda me: me.background(asyncio.Event().wait()))
    await handle.entries()
    node = loop.tree().find("worker")
    assert node is not None
    assert [below.name for below in node.children] == ["background Event.wait"]


@pytest.mark.guarantee("G66")
def test_the_exit_of_work_is_not_a_signal(loop: ActorSystem, book: Book) -> None:
    """Its result comes as a message, so its exit is not reported."""

    class Watching(Puppet):
        def on_signal(self, signal: Signal) -> None:
            self.book.append(signal)

    handle = loop.spawn(Watching, book)
    handle.do(start(seven, "then"))
    handle.do(start(boom, "failed"))
    loop.run(until_idle=True)
    assert [type(entry) for entry in book] == [tuple, tuple]


@pytest.mark.guarantee("G69")
@pytest.mark.parametrize("work", [5, None, turns], ids=repr)
def test_work_that_is_not_awaitable_is_refused(loop: ActorSystem, work: Any) -> None:
    class Worker(Actor):
        @ask(raises=InvalidArgumentError)
        def go(self) -> None:
            self.background(work)

    worker = loop.spawn(Worker)
    with pytest.raises(InvalidArgumentError, match="pass a coroutine"):
        answer(loop, worker.go())
    assert is_alive(worker)
