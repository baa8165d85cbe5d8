"""The Worker shape: who listens, what is missing, and the ready-made one around a function."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus import worker as worker_module
from bandstand.bus.contracts.messages import Message
from bandstand.bus.frame import Metadata
from bandstand.bus.worker import (
    BufferedWorker,
    ErrorEvent,
    Listeners,
    MessageEvent,
    Worker,
    WorkerEvent,
    as_worker,
)
from bandstand.errors import ContractError, InvalidArgumentError, WrongThreadError
from tests.core.support import Boom

pytestmark = [pytest.mark.spec("C13"), pytest.mark.usefixtures("lane_loop")]


def message(number: int = 1) -> Message:
    return Message(kind="command", type="A.B", data=number, metadata=Metadata(f"m{number}", 1))


class Heard:
    """Everything a worker says, in order."""

    def __init__(self, worker: Worker) -> None:
        self.events: list[WorkerEvent] = []
        worker.add_event_listener("message", self.events.append)
        worker.add_event_listener("error", self.events.append)

    @property
    def said(self) -> list[object]:
        return [event.data for event in self.events if isinstance(event, MessageEvent)]

    @property
    def errors(self) -> list[str]:
        return [repr(event.error) for event in self.events if isinstance(event, ErrorEvent)]


async def rest(worker: BufferedWorker) -> None:
    """Until it has nothing to do."""
    for _ in range(10_000):
        if worker.is_idle:
            return
        await asyncio.sleep(0)
    raise AssertionError("it does not come to rest")


async def hear(handler: Callable[[Message], object], count: int = 1) -> Heard:
    """What a worker around this handler says to so many messages."""
    worker = BufferedWorker(handler)
    heard = Heard(worker)
    for number in range(1, count + 1):
        worker.post_message(message(number))
    await rest(worker)
    return heard


# --- who listens --------------------------------------------------------------------------------------------------------------


class TestListeners:
    def test_are_called_in_order_and_the_attribute_last(self) -> None:
        target, order = Listeners(), list[str]()
        target.onmessage = lambda event: order.append(f"own {event.data}")
        target.add_event_listener("message", lambda event: order.append(f"first {event.data}"))
        target.add_event_listener("message", lambda event: order.append(f"second {event.data}"))
        assert target.dispatch_event(MessageEvent("hello")) is True
        assert order == ["first hello", "second hello", "own hello"]

    def test_hear_only_what_they_listen_for(self) -> None:
        target, messages, errors = Listeners(), list[WorkerEvent](), list[WorkerEvent]()
        target.add_event_listener("message", messages.append)
        target.add_event_listener("error", errors.append)
        target.onerror = errors.append
        said, failed = MessageEvent(1), ErrorEvent(RuntimeError())
        target.dispatch_event(said)
        target.dispatch_event(failed)
        assert messages == [said]
        assert errors == [failed, failed]

    def test_are_called_once_however_often_they_were_added_or_removed(self) -> None:
        target, other, heard = Listeners(), Listeners(), list[WorkerEvent]()
        append = heard.append
        target.add_event_listener("message", append)
        target.add_event_listener("message", append)
        target.dispatch_event(MessageEvent(1))
        # Two workers share no listeners.
        other.dispatch_event(MessageEvent(1))
        assert len(heard) == 1
        for _ in range(2):
            target.remove_event_listener("message", append)
        target.dispatch_event(MessageEvent(2))
        assert len(heard) == 1

    def test_the_others_hear_if_one_raises(self, caplog: pytest.LogCaptureFixture) -> None:
        target, heard = Listeners(), list[WorkerEvent]()

        def deaf(event: WorkerEvent) -> None:
            raise ValueError("deaf")

        target.add_event_listener("message", deaf)
        target.add_event_listener("message", heard.append)
        target.onmessage = deaf
        assert target.dispatch_event(MessageEvent(1))
        assert len(heard) == 1
        assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
        assert "deaf" in caplog.text

    def test_one_that_was_removed_by_one_before_it_is_not_called(self) -> None:
        target, heard = Listeners(), list[WorkerEvent]()
        append = heard.append
        target.add_event_listener("message", lambda event: target.remove_event_listener("message", append))
        target.add_event_listener("message", append)
        target.dispatch_event(MessageEvent(1))
        assert heard == []

    def test_one_that_was_added_meanwhile_hears_the_next(self) -> None:
        target, heard = Listeners(), list[WorkerEvent]()
        append = heard.append
        target.add_event_listener("message", lambda event: target.add_event_listener("message", append))
        target.dispatch_event(MessageEvent(1))
        assert heard == []
        target.dispatch_event(MessageEvent(2))
        assert heard == [MessageEvent(2)]

    def test_an_error_without_a_listener_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        Listeners().dispatch_event(MessageEvent(1))
        assert caplog.records == []
        Listeners().dispatch_event(ErrorEvent(RuntimeError("unheard")))
        assert "has no error listener" in caplog.text
        assert "unheard" in caplog.text

    def test_wrong_ones_are_refused(self) -> None:
        name: Any = "massage"
        callback: Any = 5
        with pytest.raises(InvalidArgumentError, match="'massage' is no event"):
            Listeners().add_event_listener(name, print)
        with pytest.raises(InvalidArgumentError, match="5 cannot be called"):
            Listeners().add_event_listener("message", callback)


class Parrot(Listeners):
    """As somebody would write one: it never calls the initialiser of what it derives from."""

    def __init__(self) -> None:
        self.is_over = False

    def post_message(self, message: Message) -> None:
        self.dispatch_event(MessageEvent(message))

    def terminate(self) -> None:
        self.is_over = True


class TestTheShape:
    def test_is_complete_with_two_methods_of_ones_own(self) -> None:
        parrot = Parrot()
        worker: Worker = parrot
        assert as_worker(parrot, "Parrot") is parrot
        heard = Heard(worker)
        worker.post_message(message(3))
        worker.terminate()
        assert heard.said == [message(3)]
        assert parrot.is_over

    @pytest.mark.parametrize("other", [print, 5, None, object(), Listeners()])
    def test_what_has_nothing_of_it_is_no_worker(self, other: object) -> None:
        assert as_worker(other, "Shop") is None

    def test_what_has_a_part_of_it_is_told_what_is_missing(self) -> None:
        class Half:
            onmessage = None
            terminate = 5

            def post_message(self, message: Message) -> None: ...
            def dispatch_event(self, event: WorkerEvent) -> None: ...

        with pytest.raises(ContractError) as caught:
            as_worker(Half(), "Shop.spawn")
        told = str(caught.value)
        assert told.startswith("Shop.spawn: Half has post_message() but not ")
        for name in ("terminate()", "add_event_listener()", "remove_event_listener()", "onerror"):
            assert name in told
        assert "dispatch_event()" not in told
        assert "onmessage" not in told

    def test_events_are_values_and_know_their_names(self) -> None:
        error = RuntimeError()
        assert (MessageEvent(1).type, ErrorEvent(error).type) == ("message", "error")
        assert MessageEvent(1, "m1") == MessageEvent(1, "m1") != MessageEvent(1)
        assert ErrorEvent(error).causation is None


# --- the ready-made one -------------------------------------------------------------------------------------------------------


async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


class TestWhatAHandlerGivesBack:
    @pytest.mark.parametrize(
        ("returned", "said"),
        [
            (None, []),
            (7, [7]),
            ([], []),
            ([7, 8], [7, 8]),
            ((7, 8), [7, 8]),
            (iter([7, 8]), [7, 8]),
            ("text", ["text"]),
            (b"bytes", [b"bytes"]),
            ({"kind": "event"}, [{"kind": "event"}]),
            ([None], [None]),
            (0, [0]),
        ],
    )
    @pytest.mark.parametrize("is_async", [False, True])
    async def test_is_nothing_one_thing_or_several(
        self, returned: object, said: list[object], is_async: bool
    ) -> None:
        # An iterator can be gone through once, and this test goes through it in both its forms.
        fresh = iter([7, 8]) if isinstance(returned, Iterator) else returned
        heard = await hear((lambda message: later(fresh)) if is_async else (lambda message: fresh))
        assert heard.said == said
        assert heard.errors == []

    async def test_a_model_that_can_be_gone_through_is_one_thing(self) -> None:
        from pydantic import BaseModel

        class Model(BaseModel):
            value: int = 1

        assert (await hear(lambda message: Model())).said == [Model()]

    async def test_a_generator_is_heard_while_it_goes_on(self) -> None:
        order: list[object] = []

        def handler(message: Message) -> Iterator[int]:
            yield 1
            order.append("between")
            yield 2

        worker = BufferedWorker(handler)
        worker.onmessage = lambda event: order.append(event.data)
        worker.post_message(message())
        await rest(worker)
        assert order == [1, "between", 2]

    async def test_any_awaitable_is_awaited(self) -> None:
        def handler(message: Message) -> Awaitable[int]:
            future = asyncio.get_running_loop().create_future()
            future.set_result(5)
            return future

        assert (await hear(handler)).said == [5]

    async def test_everything_names_the_message_it_follows_from_unless_that_has_no_id(self) -> None:
        def handler(message: Message) -> list[int]:
            if message.data == 2:
                raise ValueError("two")
            return [message.data]

        heard = await hear(handler, 3)
        assert [event.causation for event in heard.events] == ["m1", "m2", "m3"]
        worker = BufferedWorker(handler)
        heard = Heard(worker)
        worker.post_message(Message(kind="event", type="A.B", data=1))
        await rest(worker)
        assert heard.events == [MessageEvent(1, None)]


class TestOrder:
    async def test_posting_returns_before_anything_is_handled(self) -> None:
        handled: list[int] = []
        worker = BufferedWorker(lambda message: handled.append(message.data))
        worker.post_message(message(1))
        assert handled == []
        assert not worker.is_idle
        await rest(worker)
        assert handled == [1]

    async def test_one_is_finished_before_the_next_is_begun(self) -> None:
        diary: list[str] = []

        async def handler(message: Message) -> None:
            diary.append(f"begin {message.data}")
            for _ in range(3 - message.data):
                await asyncio.sleep(0)
            diary.append(f"end {message.data}")

        await hear(handler, 3)
        assert diary == [f"{what} {number}" for number in (1, 2, 3) for what in ("begin", "end")]

    @given(
        waits=st.lists(st.integers(0, 3), max_size=30), gaps=st.lists(st.booleans(), min_size=30, max_size=30)
    )
    def test_messages_are_handled_in_order(self, waits: list[int], gaps: list[bool]) -> None:
        """Each handler waits so many turns, or is none that waits at all; between posting some, others have their turn."""

        def handler(message: Message) -> object:
            number, turns = message.data
            return number if not turns else wait(number, turns)

        async def wait(number: int, turns: int) -> int:
            for _ in range(turns - 1):
                await asyncio.sleep(0)
            return number

        async def scene() -> list[object]:
            worker = BufferedWorker(handler)
            heard = Heard(worker)
            for number, turns in enumerate(waits):
                worker.post_message(Message(kind="command", type="A.B", data=(number, turns)))
                if gaps[number]:
                    await asyncio.sleep(0)
            await rest(worker)
            return heard.said

        # One loop for each example; the lane's own is for the tests beside this one.
        assert asyncio.run(scene()) == list(range(len(waits)))

    async def test_what_a_handler_posts_to_its_own_worker_comes_last(self) -> None:
        def handler(given: Message) -> object:
            if given.data < 10:
                worker.post_message(message(given.data * 10))
            return given.data

        worker = BufferedWorker(handler)
        heard = Heard(worker)
        worker.post_message(message(1))
        worker.post_message(message(2))
        await rest(worker)
        assert heard.said == [1, 2, 10, 20]

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_long_mailbox_does_not_keep_others_waiting(self, is_async: bool) -> None:
        async def instant(message: Message) -> int:
            return 1

        worker = BufferedWorker(instant if is_async else lambda message: 1)
        heard = Heard(worker)
        for number in range(10 * worker_module.BURST_MESSAGES):
            worker.post_message(message(number))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        # So many were handled when somebody else had a turn.
        assert len(heard.events) <= 3 * worker_module.BURST_MESSAGES
        await rest(worker)
        assert len(heard.events) == 10 * worker_module.BURST_MESSAGES


class TestTasks:
    async def test_a_handler_that_does_not_wait_takes_none(self) -> None:
        seen: set[asyncio.Task[Any]] = set()
        worker = BufferedWorker(lambda message: seen.update(asyncio.all_tasks()))
        for number in range(5):
            worker.post_message(message(number))
        await rest(worker)
        assert seen <= asyncio.all_tasks()

    async def test_one_is_enough_for_all_that_waits(self) -> None:
        tasks: list[object] = []

        async def handler(message: Message) -> None:
            tasks.append(asyncio.current_task())
            await asyncio.sleep(0)

        await hear(handler, 20)
        assert len(set(map(id, tasks))) == 1
        assert None not in tasks

    async def test_what_needs_a_task_works_inside_and_a_deadline_that_passes_is_its_own_affair(self) -> None:
        async def handler(message: Message) -> object:
            async with asyncio.timeout(60), asyncio.TaskGroup() as group:
                first = group.create_task(later(message.data))
            try:
                async with asyncio.timeout(0):
                    await asyncio.get_running_loop().create_future()
            except TimeoutError:
                return first.result()
            return "in time"

        heard = await hear(handler, 3)
        assert (heard.said, heard.errors) == ([1, 2, 3], [])


class TestErrors:
    @pytest.mark.parametrize("is_async", [False, True])
    async def test_what_a_handler_raises_is_told_and_the_next_is_handled(self, is_async: bool) -> None:
        def plain(message: Message) -> object:
            if message.data == 2:
                raise Boom(message.data)
            return message.data

        async def waiting(message: Message) -> object:
            await asyncio.sleep(0)
            return plain(message)

        heard = await hear(waiting if is_async else plain, 3)
        assert heard.said == [1, 3]
        assert heard.errors == ["Boom(2)"]
        assert heard.events[1].causation == "m2"

    async def test_what_was_said_before_stays_said(self) -> None:
        def handler(message: Message) -> Iterator[int]:
            yield 1
            raise Boom

        async def waiting(message: Message) -> AsyncGenerator[int, None]:
            yield 1
            raise Boom

        for heard in (await hear(handler), await hear(waiting)):
            assert (heard.said, heard.errors) == ([1], ["Boom()"])

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_something_that_was_cancelled_is_an_error_like_others(self, is_async: bool) -> None:
        """It is not the worker that was cancelled but what the handler has waited for."""

        def plain(message: Message) -> object:
            raise asyncio.CancelledError

        async def waiting(message: Message) -> object:
            if message.data > 1:
                return message.data
            future = asyncio.get_running_loop().create_future()
            future.cancel()
            return await future

        heard = await hear(waiting if is_async else plain, 2)
        assert heard.errors[0] == "CancelledError()"
        assert heard.said == ([2] if is_async else [])


class TestTheEnd:
    @pytest.mark.parametrize("is_async", [False, True])
    async def test_what_waits_is_forgotten(self, is_async: bool) -> None:
        handled: list[int] = []

        def handler(message: Message) -> object:
            handled.append(message.data)
            return later(1) if is_async else 1

        worker = BufferedWorker(handler)
        heard = Heard(worker)
        worker.post_message(message(1))
        worker.post_message(message(2))
        worker.terminate()
        assert worker.is_terminated
        assert worker.is_idle
        worker.post_message(message(3))
        for _ in range(5):
            await asyncio.sleep(0)
        assert handled == []
        assert heard.events == []

    @pytest.mark.parametrize("how", ["cleans up", "stays", "fails"])
    async def test_a_waiting_handler_is_cancelled(self, how: str, caplog: pytest.LogCaptureFixture) -> None:
        begun, diary = asyncio.Event(), list[str]()

        async def handler(message: Message) -> object:
            begun.set()
            try:
                return await asyncio.get_running_loop().create_future()
            except asyncio.CancelledError:
                diary.append(how)
                if how == "stays":
                    return "I am still here"
                if how == "fails":
                    raise Boom("on the way out") from None
                raise

        worker = BufferedWorker(handler)
        heard = Heard(worker)
        worker.post_message(message(1))
        worker.post_message(message(2))
        await begun.wait()
        worker.terminate()
        worker.terminate()
        with caplog.at_level(logging.WARNING, "bandstand.bus"):
            await rest(worker)
        assert diary == [how]
        assert heard.events == [], "whoever terminates it knows"
        assert ("on the way out" in caplog.text) == (how == "fails")

    @pytest.mark.parametrize("shape", ["list", "generator", "async generator", "coroutine"])
    async def test_a_listener_may_end_it_in_the_middle_of_a_sentence(self, shape: str) -> None:
        closed: list[str] = []

        def generator(message: Message) -> Iterator[int]:
            try:
                yield from (1, 2)
            finally:
                closed.append("closed")

        async def async_generator(message: Message) -> AsyncGenerator[int, None]:
            try:
                yield 1
                yield 2
            finally:
                closed.append("closed")

        handlers: dict[str, Callable[[Message], object]] = {
            "list": lambda message: [1, 2],
            "generator": generator,
            "async generator": async_generator,
            "coroutine": lambda message: later([1, 2]),
        }
        worker = BufferedWorker(handlers[shape])
        heard = Heard(worker)
        worker.onmessage = lambda event: worker.terminate()
        worker.post_message(message(1))
        worker.post_message(message(2))
        await rest(worker)
        assert (heard.said, heard.errors) == ([1], [])
        assert closed == (["closed"] if "generator" in shape else [])

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_a_listener_may_end_it_because_of_an_error(self, is_async: bool) -> None:
        """That is what a supervisor does."""

        async def raising() -> None:
            await asyncio.sleep(0)
            raise Boom

        def handler(message: Message) -> object:
            if is_async:
                return raising()
            raise Boom

        worker = BufferedWorker(handler)
        heard = Heard(worker)
        worker.onerror = lambda event: worker.terminate()
        worker.post_message(message(1))
        worker.post_message(message(2))
        await rest(worker)
        assert heard.errors == ["Boom()"]

    def test_it_ends_with_its_event_loop(self, loop_factory: Callable[[], asyncio.AbstractEventLoop]) -> None:
        stage: list[tuple[BufferedWorker, Heard]] = []

        async def scene() -> None:
            begun = asyncio.Event()

            async def handler(message: Message) -> None:
                begun.set()
                await asyncio.get_running_loop().create_future()

            worker = BufferedWorker(handler)
            stage.append((worker, Heard(worker)))
            worker.post_message(message(1))
            worker.post_message(message(2))
            await begun.wait()

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(scene())
        ((worker, heard),) = stage
        assert worker.is_terminated
        assert worker.is_idle
        assert [(type(event), event.causation) for event in heard.events] == [(ErrorEvent, "m1")]


class TestItsOwnSchedule:
    def test_it_can_be_told_how_to_call_later(self) -> None:
        calls: list[Callable[[], None]] = []
        worker = BufferedWorker(lambda message: message.data, soon=calls.append)
        heard = Heard(worker)
        worker.post_message(message(1))
        worker.post_message(message(2))
        assert len(calls) == 1
        assert heard.said == []
        calls.pop()()
        assert heard.said == [1, 2]
        assert worker.is_idle
        worker.post_message(message(3))
        assert len(calls) == 1

    @pytest.mark.guarantee("G270")
    def test_after_so_long_it_asks_to_be_called_again(self, monkeypatch: pytest.MonkeyPatch) -> None:
        now = [0.0]
        monkeypatch.setattr(worker_module, "monotonic", lambda: now[0])

        def slow(message: Message) -> object:
            now[0] += 0.1
            return message.data

        calls: list[Callable[[], None]] = []
        worker = BufferedWorker(slow, soon=calls.append)
        heard = Heard(worker)
        for number in range(3):
            worker.post_message(message(number))
        for handled in (1, 2, 3):
            calls.pop()()
            assert len(heard.said) == handled

    def test_what_ends_the_program_leaves_it_able_to_go_on(self) -> None:
        calls: list[Callable[[], None]] = []

        def handler(message: Message) -> object:
            if message.data == 1:
                raise KeyboardInterrupt
            return message.data

        worker = BufferedWorker(handler, soon=calls.append)
        heard = Heard(worker)
        worker.post_message(message(1))
        worker.post_message(message(2))
        with pytest.raises(KeyboardInterrupt):
            calls.pop()()
        calls.pop()()
        assert heard.said == [2]

    def test_without_an_event_loop_it_says_what_is_missing(self) -> None:
        worker = BufferedWorker(print)
        with pytest.raises(WrongThreadError, match="soon="):
            worker.post_message(message())
        assert worker.is_idle, "and nothing has happened"

    def test_it_tells_what_it_is_around(self) -> None:
        assert repr(BufferedWorker(later)).startswith("BufferedWorker(later")
