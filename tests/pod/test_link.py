"""A link: what is sent at one end is handled at the other, as if it were here."""

from __future__ import annotations

import asyncio
from contextvars import Context
from typing import Any, cast

import pytest

from bandstand.actor import Actor, ask, ping, status_of
from bandstand.actor.declaration import methods_of
from bandstand.actor.handle import post_to
from bandstand.actor.reply import ReplyCallback
from bandstand.core import ActorId, ExitReason, Overflow
from bandstand.errors import (
    AskTimeoutError,
    MailboxFullError,
    MessageDroppedError,
    NoSuchActorError,
    RemoteError,
    TargetEndedError,
    UnknownMessageError,
)
from bandstand.pod.link.codec import Packer, Packet
from tests.pod.linking import (
    Role,
    Scribe,
    Sour,
    Stuck,
    instance,
    linked,
    request_id,
    scribe_link,
    soon,
    tenant,
    until,
)

pytestmark = pytest.mark.spec("S19")

# --- messages and answers -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G144")
async def test_messages_are_handled_once_and_in_order_and_asks_are_answered() -> None:
    async with scribe_link() as (near, _far, scribe):
        for number in range(300):
            scribe.note(number)
        scribe.pair(1)
        scribe.pair(1, second=[2])
        assert await soon(scribe.read()) == [*range(300), (1, "b"), (1, [2])]
        assert near.link.stats().handled == near.link.stats().sent == 303


@pytest.mark.guarantee("G248")
@pytest.mark.parametrize("inquiry", [ping, status_of])
async def test_what_every_actor_answers_does_not_cross_and_says_so(inquiry: Any) -> None:
    async with scribe_link() as (_near, _far, scribe):
        with pytest.raises(UnknownMessageError, match="runs in another process"):
            await soon(inquiry(scribe))
        scribe.note(1)
        assert await soon(scribe.read()) == [1]


@pytest.mark.guarantee("G145")
async def test_a_lane_overtakes_a_lower_one_and_keeps_its_own_order() -> None:
    async with scribe_link() as (_near, _far, scribe):
        for number in range(20):
            scribe.note(("data", number))
            scribe.manage(("management", number))
            scribe.command(("control", number))
        got: list[Any] = await soon(scribe.read())
        # All were sent in one turn, so all of them were there when the first was taken.
        assert got == [(lane, number) for lane in ("control", "management", "data") for number in range(20)]


VALUES = (-(2**63), 2**64, 1.5, None, True, "\u00e9", "\udc80", b"bytes", (1, (2,)), [1], {"a": (1,)}, {1, 2})


@pytest.mark.guarantee("G147")
@pytest.mark.parametrize("value", VALUES, ids=repr)
async def test_values_come_back_as_they_went(value: object) -> None:
    async with scribe_link() as (_near, _far, scribe):
        answer = await soon(scribe.echo(value))
        assert answer == value
        assert type(answer) is type(value)


@pytest.mark.guarantee("G147")
async def test_arguments_that_cannot_be_pickled_are_an_error_of_the_caller() -> None:
    async with scribe_link() as (near, _far, scribe):
        with pytest.raises(TypeError, match=r"Scribe\.note\(\).*another process.*type function"):
            scribe.note(lambda: None)
        with pytest.raises(TypeError, match=r"Scribe\.echo\(\).*another process.*type function"):
            scribe.echo(lambda: None)
        with pytest.raises(TypeError, match="an argument of type function"):
            scribe.pair(1, lambda: None)
        with pytest.raises(TypeError, match="an argument of type function"):
            scribe.pair(1, second=lambda: None)
        tenant.set(cast("Any", lambda: None))
        with pytest.raises(TypeError, match="a context variable of type function"):
            scribe.note(1)
        assert near.link.stats().sent == 0


@pytest.mark.guarantee("G147")
def test_context_variables_that_are_not_set_or_have_their_defaults_do_not_travel() -> None:
    packer, method = Packer((request_id, tenant)), methods_of(Scribe)[0]

    def packed() -> object:
        return packer.pack(cast("Any", None), method, 1)

    assert Context().run(packed) == 1
    context = Context()
    context.run(request_id.set, request_id.get())
    assert context.run(packed) == 1
    context.run(request_id.set, "other")
    assert type(context.run(packed)) is Packet


# --- what handlers raise ------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G148")
async def test_a_declared_exception_comes_back_as_itself_with_its_traceback() -> None:
    async with scribe_link() as (near, far, scribe):
        with pytest.raises(KeyError, match="nothing there") as caught:
            await soon(scribe.refuse("nothing there"))
        assert "in refuse" in str(caught.value.__cause__)
        assert "raise KeyError(how)" in str(caught.value.__cause__)
        # It is an answer, and no failure.
        assert far.ours["scribe"].__actor_id__().is_alive
        assert near.link.stats().handled == 1


@pytest.mark.guarantee("G148")
@pytest.mark.parametrize(("how", "kind"), [("sour", Sour), ("stuck", Stuck)])
async def test_an_unpicklable_exception_is_a_remote_error(how: str, kind: type[Exception]) -> None:
    async with scribe_link() as (_near, _far, scribe):
        with pytest.raises(RemoteError) as caught:
            await soon(scribe.refuse(how))
        assert caught.value.kind == f"{kind.__module__}.{kind.__qualname__}"
        assert "in refuse" in str(caught.value.__cause__)


@pytest.mark.guarantee("G148")
async def test_a_failure_is_the_actors_and_ends_the_ask_with_its_cause() -> None:
    async with scribe_link() as (_near, far, scribe):
        with pytest.raises(TargetEndedError, match="PANIC") as caught:
            await soon(scribe.break_down())
        cause = caught.value.__cause__
        assert isinstance(cause, ValueError)
        assert "in break_down" in str(cause.__cause__)
        assert not far.ours["scribe"].__actor_id__().is_alive


@pytest.mark.guarantee("G144")
async def test_messages_to_an_actor_that_has_ended_over_there_are_dead() -> None:
    async with scribe_link() as (near, _far, scribe):
        scribe.fail("on purpose")
        for number in range(5):
            scribe.note(number)
        with pytest.raises(TargetEndedError):
            await soon(scribe.read())
        with pytest.raises(TargetEndedError):
            await soon(scribe.read())
        await until(lambda: near.link.stats().waiting == 0)
        stats = near.link.stats()
        assert (stats.sent, stats.handled, stats.dead) == (8, 0, 8)
        assert [message.method for message in near.dead].count("Scribe.note") == 5
        assert [message.method for message in near.dead].count("Scribe.read") == 2
        assert not any(message.is_in_doubt for message in near.dead)


@pytest.mark.guarantee("G147")
async def test_an_answer_that_cannot_be_pickled_is_an_error_of_the_ask() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.notes.append(lambda: None)
        with pytest.raises(TypeError, match="the answer cannot be sent to another process"):
            await soon(scribe.read())
        assert near.link.stats().handled == 1
        assert far.ours["scribe"].__actor_id__().is_alive


# --- room ---------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G146")
async def test_a_full_remote_lane_refuses_and_those_who_wait_for_room_get_it() -> None:
    async with scribe_link(Role(mailbox=10)) as (near, far, scribe):
        far.scribe.gate.clear()
        for number in range(10):
            scribe.slowly(number)
        # Passed on, and begun over there; none has ended, so each of them still has its slot.
        await until(lambda: far.scribe.begun == 1 and near.link.stats().sent == 10)
        with pytest.raises(MailboxFullError):
            scribe.slowly(10)
        assert not scribe.note.try_send("no")
        with pytest.raises(MailboxFullError):
            scribe.read()
        # Each lane has room of its own.
        scribe.command("control")
        waiting = scribe.slowly.when_room(11)
        assert not waiting.done()
        await until(lambda: far.link.stats().received == 11)
        far.scribe.gate.set()
        await soon(waiting)
        # It has its room; passed on it is a moment later.
        await until(lambda: near.link.stats().handled == 12)
        # The first was begun when the command came.
        assert far.scribe.notes == [0, "control", *range(1, 10), 11]


@pytest.mark.guarantee("G146")
async def test_a_message_that_meets_a_mailbox_filled_by_others_waits_for_room_in_its_order() -> None:
    async with scribe_link(Role(mailbox=5)) as (near, far, scribe):
        local, there = far.ours["scribe"], far.scribe
        there.gate.clear()
        local.slowly("first")
        await until(lambda: there.begun == 1)
        while local.note.try_send("local"):
            pass
        for number in range(5):
            scribe.note(number)
        await until(lambda: far.link.stats().received == 5)
        assert near.link.stats().waiting == 5
        there.gate.set()
        await until(lambda: near.link.stats().waiting == 0)
        got = await soon(scribe.read())
        assert [one for one in got if one != "local"] == ["first", *range(5)]


@pytest.mark.guarantee("G146")
@pytest.mark.parametrize(
    "overflow", [Overflow.DROP_NEWEST, Overflow.DROP_OLDEST, Overflow.CONFLATE], ids=lambda one: one.name
)
async def test_an_overflow_policy_is_that_of_the_actor_over_there(overflow: Overflow) -> None:
    async with scribe_link(Role(mailbox=5, overflow=overflow)) as (near, far, scribe):
        far.scribe.gate.clear()
        scribe.slowly("first")
        await until(lambda: far.scribe.begun == 1)
        # One after the other, so that nothing is given up at this end.
        for number in range(9):
            scribe.note(number)
            await until(lambda: far.link.stats().received == number + 2)  # noqa: B023  # waited for in the loop
        far.scribe.gate.set()
        await until(lambda: near.link.stats().waiting == 0)
        kept = {
            Overflow.DROP_NEWEST: [0, 1, 2, 3, 4],
            Overflow.DROP_OLDEST: [4, 5, 6, 7, 8],
            Overflow.CONFLATE: [0, 1, 2, 3, 8],
        }
        assert far.scribe.notes == ["first", *kept[overflow]]
        stats = near.link.stats()
        assert (stats.sent, stats.handled, stats.dropped) == (10, 6, 4)


@pytest.mark.guarantee("G146")
async def test_an_ask_that_is_given_up_over_there_says_so() -> None:
    async with scribe_link(Role(mailbox=1, overflow=Overflow.DROP_NEWEST)) as (near, far, scribe):
        far.scribe.gate.clear()
        scribe.slowly("first")
        await until(lambda: far.scribe.begun == 1)
        kept = scribe.echo(1)
        await until(lambda: far.link.stats().received == 2)
        with pytest.raises(MessageDroppedError):
            await soon(scribe.echo(2))
        far.scribe.gate.set()
        assert await soon(kept) == 1
        assert near.link.stats().dropped == 1


# --- taking an ask back, and its deadline -------------------------------------------------------------------------------


@pytest.mark.guarantee("G149")
async def test_an_ask_that_is_taken_back_cancels_the_handler_over_there_and_the_actor_lives_on() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        first, second = scribe.wait(1), scribe.wait(2)
        await until(lambda: far.scribe.begun == 1)
        assert second.cancel()
        assert first.cancel()
        await until(lambda: far.scribe.cancelled == 1 and near.link.stats().waiting == 0)
        far.scribe.gate.set()
        assert await soon(scribe.read()) == []
        # The second never began.
        assert far.scribe.begun == 1
        assert near.link.stats().handled == 3


@pytest.mark.guarantee("G149")
async def test_a_deadline_ends_the_wait_here_and_leaves_the_handler_alone() -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        with pytest.raises(AskTimeoutError):
            await soon(scribe.wait.within(0.02)("late"))
        far.scribe.gate.set()
        assert await soon(scribe.read()) == ["late"]
        assert far.scribe.cancelled == 0
        assert near.proxy_loop.ask_statistics().late == 1


# --- receipts for one-way messages --------------------------------------------------------------------------------------


class Slip(ReplyCallback):
    """A receipt that writes down what it is told."""

    def __init__(self, actor: ActorId, told: list[str]) -> None:
        super().__init__(actor)
        self._told = told

    def answer(self, value: object) -> None:
        self._told.append(f"handled {value}")

    def lost(self, actor: ActorId | None, name: str | None, reason: int, cause: BaseException | None) -> None:
        self._told.append(f"lost {cause}")

    def dropped(self, actor: ActorId | None, name: str | None) -> None:
        self._told.append("dropped")


@pytest.mark.guarantee("G144")
async def test_whoever_gives_a_receipt_with_a_one_way_message_is_told_what_became_of_it() -> None:
    async with linked(Role(mailbox=1, overflow=Overflow.DROP_NEWEST)) as (near, far):
        await near.handle()
        (actor,) = near.up.result().values()
        methods = {method.name: method for method in methods_of(Scribe)}
        there, told = far.scribe, list[str]()
        there.gate.clear()
        # One is begun, one waits, one is given up.
        for number in range(3):
            post_to(actor, methods["slowly"], number, Slip(actor, told))
            await until(lambda: far.link.stats().received == number + 1)  # noqa: B023  # waited for in the loop
        await until(lambda: told == ["dropped"])
        there.gate.set()
        await until(lambda: told == ["dropped", "handled None", "handled None"])
        there.gate.clear()
        post_to(actor, methods["slowly"], 3, Slip(actor, told))
        await until(lambda: there.begun == 3)
        far.link.close("killed")
        await until(lambda: len(told) == 4)
        assert told[3].startswith("lost pod 'far' is unreachable (killed)")


# --- who is not there ---------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G144")
async def test_messages_for_a_role_that_is_not_there_are_dead_and_asks_say_so() -> None:
    async with scribe_link() as (near, far, scribe):
        there = far.ours.pop("scribe")
        there_actor = there.__actor_id__()
        there_actor.home.actors.stop_actor(there_actor)
        scribe.note(1)
        with pytest.raises(TargetEndedError) as caught:
            await soon(scribe.read())
        assert isinstance(caught.value.__cause__, NoSuchActorError)
        assert near.link.stats().dead == 2


# --- the end of a role --------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G267")
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_that_waits_for_nothing_and_what_was_under_way_has_its_fate(how: str) -> None:
    async with scribe_link() as (near, far, scribe):
        far.scribe.gate.clear()
        waiting = scribe.wait("never")
        scribe.note("unread")
        await until(lambda: far.scribe.begun)
        ended = far.ours["scribe"].ended()
        getattr(scribe, how)()
        await soon(ended)
        with pytest.raises(TargetEndedError):
            await soon(waiting)
        await until(lambda: near.link.stats().waiting == 0)
        assert sorted(message.method for message in near.dead) == ["Scribe.note", "Scribe.wait"]


@pytest.mark.guarantee("G267")
@pytest.mark.parametrize("overflow", [Overflow.REJECT, Overflow.DROP_OLDEST])
async def test_one_that_is_drained_handles_what_was_sent_before(overflow: Overflow) -> None:
    async with scribe_link(Role(overflow=overflow)) as (near, far, scribe):
        mine = far.scribe
        mine.gate.clear()
        scribe.slowly("slow")
        for number in range(30):
            scribe.note(number)
        scribe.stop(drain=True)
        await until(lambda: mine.begun)
        ended = far.ours["scribe"].ended()
        mine.gate.set()
        assert await soon(ended) is ExitReason.NORMAL
        assert mine.notes == ["slow", *range(30)]
        assert near.dead == []


# --- turns of the event loop ------------------------------------------------------------------------------------------------


async def test_the_end_of_a_role_that_is_not_there_means_nothing() -> None:
    async with scribe_link(more={"other": Role()}) as (near, far, scribe):
        other = await near.handle("other")
        del far.ours["other"]
        other.kill()
        scribe.note(1)
        assert await soon(scribe.read()) == [1]


class Asker(Actor):
    """Asks a remote scribe, one ask after the other."""

    def __init__(self, scribe: Any) -> None:
        self._scribe = scribe
        self.answers: list[object] = []

    @ask
    async def ask_all(self, count: int) -> list[object]:
        for number in range(count):
            self.answers.append(await self._scribe.echo(number))
        return self.answers


@pytest.mark.guarantee("G144")
async def test_an_ask_is_handled_and_its_asker_continues_inside_the_reads() -> None:
    """Neither side needs an iteration of the event loop beside the one that reports the socket."""
    async with linked() as (near, far):
        asker = near.loop.spawn(Asker, await near.handle())
        ends = (far.link.transport, near.link.transport)
        event_loop = asyncio.get_running_loop()
        for transport in ends:
            event_loop.remove_reader(transport.fd)
        answer = asyncio.ensure_future(asker.ask_all(3))
        await until(lambda: near.link.stats().sent)
        progress: list[list[object]] = []

        def read_by_hand() -> None:
            for _ in range(3):
                for transport in ends:
                    transport.on_readable()
                progress.append([*instance(asker).answers])

        event_loop.call_soon(read_by_hand)
        assert await soon(answer) == [0, 1, 2]
        assert progress == [[0], [0, 1], [0, 1, 2]]
