"""Replicas of a pod, each with its runtime on one event loop, and the calling program that sends to them over links."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from random import Random
from typing import Any

import pytest

from bandstand.actor import Actor, ask, tell, when_down
from bandstand.actor.when_down import WhenDown
from bandstand.core import ExitReason, Lane
from bandstand.errors import (
    InvalidArgumentError,
    MailboxFullError,
    PodDownError,
    PodGoneError,
    PodTimeoutError,
    TargetEndedError,
    UnknownMessageError,
)
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.link import Undelivered
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.restart import PodEnding
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pool import ByKey, Routing
from bandstand.supervision.supervisor import consistent_hash
from tests.pod.linking import instance, soon, until

pytestmark = pytest.mark.spec("S19")


class Listener(Actor):
    """Writes down what it is told, and waits at a gate if told to."""

    def __init__(self) -> None:
        self.notes: list[Any] = []
        self.begun: list[Any] = []
        self.cancelled = 0
        self.gate = asyncio.Event()

    @tell
    def note(self, what: object) -> None:
        self.notes.append(what)

    @tell(lane=Lane.CONTROL)
    def command(self, what: object) -> None:
        self.notes.append(what)

    @tell
    async def slowly(self, what: object) -> None:
        self.begun.append(what)
        await self.gate.wait()
        self.notes.append(what)


class Worker(Listener):
    """Answers, too."""

    @ask
    async def wait(self, what: object) -> object:
        self.begun.append(what)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return what

    @ask
    def echo(self, what: object) -> Any:
        return what

    @ask
    def fail(self) -> None:
        raise ValueError("broken")


def is_in(runtime: PodRuntime, phase: PodPhase) -> bool:
    return runtime.phase is phase


class Replicas:
    """The calling program, and replicas that start and die as a test says."""

    def __init__(self, spec: TroupeSpec) -> None:
        self.spec = spec
        self.lost: list[Undelivered] = []
        # Of all incarnations.
        self.notes: list[list[Any]] = []
        self.caller = PodRuntime(spec, None, 1, on_undelivered=self.lost.append)
        self.worker: Any = self.caller.handle("worker")
        self.runtimes: dict[int, PodRuntime] = {}
        self._sockets: dict[int, socket.socket] = {}
        self._tasks: list[asyncio.Task[PodEnding]] = []

    def run(self, runtime: PodRuntime) -> None:
        self._tasks.append(asyncio.get_running_loop().create_task(runtime.run()))

    async def start(self, *numbers: int) -> None:
        """Start replicas, and wait until the program can reach them."""
        for number in numbers:
            name = f"workers-{number}"
            runtime = self.runtimes[number] = PodRuntime(self.spec, name, 1)
            self.run(runtime)
            await until(partial(is_in, runtime, PodPhase.RUNNING))
            ours, theirs = socket.socketpair()
            old = self._sockets.pop(number, None)
            if old is not None:
                old.close()
            self._sockets[number] = theirs.dup()
            runtime.attach(None, theirs)
            self.caller.attach(name, ours)
            await until(partial(self.caller.address_book.find, name, "worker"))
            self.notes.append(self[number].notes)

    def __getitem__(self, number: int) -> Worker:
        """The actor of a replica."""
        actors = self.runtimes[number].actors
        assert actors is not None
        worker: Worker = instance(actors.handles["worker"])
        return worker

    def received(self) -> int:
        """How many messages have arrived at replicas, in their present incarnations."""
        return sum(runtime.links.link_stats().received for runtime in self.runtimes.values())

    def deafen(self, number: int) -> None:
        """Let a replica read nothing from now on."""
        link = self.runtimes[number].links._links[None]  # pyright: ignore[reportPrivateUsage]  # a process that hangs
        link.transport.event_loop.remove_reader(link.transport.fd)

    async def kill(self, number: int) -> None:
        """End a replica as kill -9 does: its end of the link closes without a word."""
        name = f"workers-{number}"
        sock = self._sockets.pop(number)
        sock.shutdown(socket.SHUT_RDWR)
        sock.close()
        self.runtimes[number].kill(PodEnding(PodPhase.FAILED, "killed"))
        await until(lambda: self.caller.address_book.find(name, "worker") is None)

    def retire(self, name: str) -> None:
        self.caller.address_book.retire(name, "it has failed")
        self.caller.links.retire(name, "it has failed")

    def check_stats(self) -> None:
        stats = self.caller.stats()
        assert stats.is_balanced, stats
        assert min(stats.sent, stats.handled, stats.dead, stats.waiting) >= 0, stats

    async def stop(self) -> None:
        for sock in self._sockets.values():
            sock.close()
        for runtime in (*self.runtimes.values(), self.caller):
            runtime.kill(PodEnding(PodPhase.COMPLETED, "the test is over"))
        await soon(asyncio.wait(self._tasks))
        self.check_stats()
        assert self.caller.stats().waiting == 0


@asynccontextmanager
async def replicas(
    count: int = 2,
    *up: int,
    kind: type[Listener] = Worker,
    down_timeout: float = 5.0,
    more: tuple[RoleSpec, ...] = (),
    **options: Any,
) -> AsyncGenerator[Replicas]:
    """Replicas that are declared, and of which some run: all if nothing is said."""
    role = RoleSpec(name="worker", kind=kind, is_exposed=True, **options)
    spec = TroupeSpec(
        name="Shop",
        pods=(
            PodSpec(
                name="workers",
                roles=(role, *more),
                thread=ThreadModel.PROCESS,
                replicas=count,
                down_timeout=down_timeout,
            ),
        ),
    )
    made = Replicas(spec)
    made.run(made.caller)
    try:
        await until(lambda: made.caller.phase is PodPhase.RUNNING)
        await made.start(*(up or range(count)))
        yield made
    finally:
        await made.stop()


def before_colon(what: object) -> str:
    return str(what).partition(":")[0]


def key_of(number: int, count: int = 2) -> str:
    """A key that belongs to a replica."""
    return next(key for key in map(str, range(100)) if consistent_hash(key, count) == number)


# -- sharing -------------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G401")
async def test_a_message_goes_to_the_replica_with_the_fewest() -> None:
    async with replicas() as shop:
        first = [shop.worker.wait(number) for number in range(4)]
        await until(lambda: len(shop[0].begun) == len(shop[1].begun) == 1)
        busy, free = (0, 1) if shop[0].begun == [0] else (1, 0)
        shop[free].gate.set()
        assert await soon(asyncio.gather(first[1], first[3])) == [1, 3]
        # The other one still has two messages.
        assert await soon(asyncio.gather(*(shop.worker.wait(number) for number in (4, 5)))) == [4, 5]
        assert shop[busy].begun == [0]
        shop[busy].gate.set()
        assert await soon(asyncio.gather(first[0], first[2])) == [0, 2]
        shop.check_stats()


@pytest.mark.guarantee("G401")
async def test_round_robin_takes_turns() -> None:
    async with replicas(3, routing=Routing.ROUND_ROBIN) as shop:
        for number in range(9):
            shop.worker.note(number)
        await until(lambda: sum(len(shop[each].notes) for each in range(3)) == 9)
        assert sorted(shop[each].notes for each in range(3)) == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]


@pytest.mark.guarantee("G401")
async def test_a_replica_has_no_more_messages_than_ahead_and_higher_lanes_go_first() -> None:
    async with replicas(1, ahead=2) as shop:
        for number in range(5):
            shop.worker.slowly(number)
        await until(lambda: shop[0].begun == [0])
        shop.worker.command("now")
        await until(lambda: shop.caller.stats().waiting == 6)
        assert shop.caller.links.link_stats().sent == 2
        shop.check_stats()
        shop[0].gate.set()
        await until(lambda: len(shop[0].notes) == 6)
        assert shop[0].notes.index("now") == 2


@pytest.mark.guarantee("G402")
async def test_messages_of_a_key_go_to_one_replica_in_order() -> None:
    async with replicas(3, routing=ByKey(before_colon)) as shop:
        keys = [str(number) for number in range(20)]
        for _ in range(3):
            for key in keys:
                shop.worker.note(key)
        await until(lambda: sum(len(shop[each].notes) for each in range(3)) == 60)
        for number in range(3):
            own = [key for key in keys if consistent_hash(key, 3) == number]
            assert shop[number].notes == own * 3


@pytest.mark.guarantee("G402")
async def test_a_key_that_cannot_be_computed_is_an_error_of_the_call() -> None:
    def no_key(what: Any) -> str:
        return str(what["key"])

    async with replicas(2, routing=ByKey(no_key)) as shop:
        for call in (shop.worker.note, shop.worker.echo):
            with pytest.raises(InvalidArgumentError, match=r"key of Worker\.\w+\(\).*KeyError"):
                call({})
        with pytest.raises(InvalidArgumentError, match="could not be computed"):
            shop.worker.note(5)
        assert await soon(shop.worker.echo({"key": 5})) == {"key": 5}
        assert shop.caller.stats().sent == 1


@pytest.mark.guarantee("G403")
async def test_a_broadcast_goes_to_all_replicas_and_other_methods_to_one() -> None:
    large = bytes(200_000)
    async with replicas(3, broadcast=("note",)) as shop:
        shop.worker.note("all")
        shop.worker.note(large)
        shop.worker.note(["pickled"])
        shop.worker.command("one")
        await until(lambda: sum(len(shop[each].notes) for each in range(3)) == 10)
        for number in range(3):
            assert [what for what in shop[number].notes if what != "one"] == ["all", large, ["pickled"]]
        await until(lambda: shop.caller.stats().waiting == 0)
        assert shop.caller.stats().handled == 10
        shop.check_stats()


# -- a replica dies ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G404")
async def test_what_a_replica_had_is_in_doubt_and_what_waited_goes_to_others() -> None:
    async with replicas(2, ahead=2) as shop:
        asks = [asyncio.ensure_future(shop.worker.wait(number)) for number in range(10)]
        await until(lambda: shop.received() == 4)
        await shop.kill(0)
        shop[1].gate.set()
        ends = await soon(asyncio.gather(*asks, return_exceptions=True))
        failed = [end for end in ends if isinstance(end, BaseException)]
        assert len(failed) == 2
        for error in failed:
            assert isinstance(error, TargetEndedError)
            assert "in doubt whether the message was handled" in str(error.__cause__)
        assert [end for end in ends if isinstance(end, int)] == shop[1].begun
        stats = shop.caller.stats()
        assert (stats.sent, stats.handled, stats.in_doubt, stats.dead) == (10, 8, 2, 0)
        assert [(each.pod, each.is_in_doubt) for each in shop.lost] == [("workers-0", True)] * 2
        shop.check_stats()


@pytest.mark.guarantee("G404")
async def test_a_message_that_was_given_to_a_replica_but_not_sent_goes_to_another_one() -> None:
    async with replicas(2, 0) as shop:
        shop.deafen(0)
        # More than the socket takes: what follows is not sent.
        large = asyncio.ensure_future(shop.worker.echo(bytes(8_000_000)))
        shop.worker.note("told")
        asks = [asyncio.ensure_future(shop.worker.echo(number)) for number in range(2)]
        await until(lambda: shop.caller.links.link_stats().sent == 4)
        await shop.start(1)
        await shop.kill(0)
        assert await soon(asyncio.gather(*asks)) == [0, 1]
        assert shop[1].notes == ["told"]
        with pytest.raises(TargetEndedError) as caught:
            await soon(large)
        assert "did not reach it" in str(caught.value.__cause__)
        stats = shop.caller.stats()
        assert (stats.sent, stats.handled, stats.dead, stats.in_doubt) == (4, 3, 1, 0)
        assert [each.method for each in shop.lost] == ["Worker.echo"]
        shop.check_stats()


@pytest.mark.guarantee("G404")
async def test_messages_of_a_key_that_were_not_sent_wait_for_its_replica_in_order() -> None:
    async with replicas(2, routing=ByKey(before_colon), ahead=5) as shop:
        key = key_of(0)
        shop.deafen(0)
        large = asyncio.ensure_future(shop.worker.echo(LargeText(key)))
        for number in range(3):
            shop.worker.note(f"{key}:{number}")
        await until(lambda: shop.caller.links.link_stats().sent == 4)
        await shop.kill(0)
        with pytest.raises(TargetEndedError):
            await soon(large)
        for number in range(3, 6):
            shop.worker.note(f"{key}:{number}")
        # The key of another replica does not wait.
        assert await soon(shop.worker.echo(key_of(1))) == key_of(1)
        assert shop.caller.stats().waiting == 6
        shop.check_stats()
        await shop.start(0)
        await until(lambda: len(shop[0].notes) == 6)
        assert shop[0].notes == [f"{key}:{number}" for number in range(6)]
        assert shop[1].notes == []


class LargeText(str):
    """A text that is pickled with a large buffer, and has the key of its text."""

    __slots__ = ()

    def __reduce__(self) -> Any:
        return (_text_of, (str(self), "x" * 8_000_000))


def _text_of(text: str, _ballast: str) -> str:
    return text


@pytest.mark.guarantee("G402")
async def test_messages_that_were_not_sent_to_a_replica_that_is_gone_go_to_others() -> None:
    async with replicas(2, routing=ByKey(before_colon), ahead=5) as shop:
        shop.deafen(0)
        large = asyncio.ensure_future(shop.worker.echo(LargeText(key_of(0))))
        reply = asyncio.ensure_future(shop.worker.echo(key_of(0)))
        await until(lambda: shop.caller.links.link_stats().sent == 2)
        # The kubelet tells of a pod that fails for good before its process has ended.
        shop.retire("workers-0")
        await shop.kill(0)
        assert await soon(reply) == key_of(0)
        with pytest.raises(TargetEndedError):
            await soon(large)
        shop.check_stats()


@pytest.mark.guarantee("G404")
async def test_a_replica_whose_actor_has_ended_gets_no_more_messages() -> None:
    # Another role keeps the pod running.
    other = RoleSpec(name="other", kind=Listener)
    async with replicas(2, more=(other,)) as shop:
        actors = shop.runtimes[0].actors
        assert actors is not None
        handle: Any = actors.handles["worker"]
        handle.stop()
        await until(lambda: not handle.__actor_id__().is_alive)
        ends = [
            await soon(asyncio.gather(shop.worker.echo(number), return_exceptions=True))
            for number in range(20)
        ]
        failed = [end for (end,) in ends if isinstance(end, TargetEndedError)]
        assert len(failed) == 1
        assert "has ended" in str(failed[0].__cause__)
        shop.check_stats()


@pytest.mark.guarantee("G404")
async def test_an_actor_that_fails_takes_only_its_own_messages_with_it() -> None:
    async with replicas(2) as shop:
        with pytest.raises(TargetEndedError) as caught:
            await soon(shop.worker.fail())
        assert isinstance(caught.value.__cause__, ValueError)
        # The other replica answers, whether or not the end of the first is known by now.
        assert await soon(asyncio.gather(*map(shop.worker.echo, range(20)))) == list(range(20))
        stats = shop.caller.stats()
        assert (stats.handled, stats.dead, stats.in_doubt) == (20, 1, 0)
        shop.check_stats()


@pytest.mark.guarantee("G402")
@pytest.mark.real_time(reason="a timeout of a tenth of a second passes")
async def test_a_message_for_a_replica_that_is_down_waits_as_long_as_the_pod_says() -> None:
    async with replicas(2, 1, routing=ByKey(before_colon), down_timeout=0.1) as shop:
        shop.worker.note(key_of(0))
        with pytest.raises(PodTimeoutError, match="pod 'workers-0', which the message is for"):
            await soon(shop.worker.echo(key_of(0)))
        await until(lambda: shop.caller.stats().waiting == 0)
        assert (shop.caller.stats().sent, shop.caller.stats().dead) == (2, 2)
        assert await soon(shop.worker.echo(key_of(1))) == key_of(1)
        shop.check_stats()


@pytest.mark.guarantee("G402")
@pytest.mark.real_time(reason="a timeout of a tenth of a second passes")
async def test_a_message_for_a_replica_that_is_busy_is_not_limited() -> None:
    async with replicas(3, 2, routing=ByKey(before_colon), down_timeout=0.1, ahead=1) as shop:
        for number in range(2):
            shop.worker.slowly(f"{key_of(0, 3)}:{number}")
        await until(lambda: shop.caller.stats().waiting == 2)
        await shop.start(0)
        with pytest.raises(PodTimeoutError):
            await soon(shop.worker.echo(key_of(1, 3)))
        # By now the limit of the others would have passed, too.
        shop[0].gate.set()
        await until(lambda: len(shop[0].notes) == 2)
        shop.check_stats()


@pytest.mark.guarantee("G402")
async def test_the_keys_of_a_replica_that_is_gone_go_to_others() -> None:
    async with replicas(3, 1, 2, routing=ByKey(before_colon), broadcast=("command",)) as shop:
        keys = [str(number) for number in range(30)]
        for key in keys:
            shop.worker.note(key)
        shop.worker.command("all")
        await until(
            lambda: shop.caller.stats().handled == 2 + sum(consistent_hash(key, 3) != 0 for key in keys)
        )
        waiting = shop.caller.stats().waiting
        assert waiting == 1 + sum(consistent_hash(key, 3) == 0 for key in keys)
        shop.retire("workers-0")
        await until(lambda: shop.caller.stats().waiting == 0)
        # Its copy of the broadcast is dead, and the keys of the others have not moved.
        stats = shop.caller.stats()
        assert (stats.dead, stats.handled) == (1, 32)
        for number in (1, 2):
            own = {key for key in keys if consistent_hash(key, 3) == number}
            assert own < set(shop[number].notes)
        shop.worker.command("left")
        await until(lambda: shop[1].notes[-1] == shop[2].notes[-1] == "left")
        shop.check_stats()


@pytest.mark.guarantee("G403")
async def test_a_broadcast_reaches_a_replica_that_is_down_when_it_is_back() -> None:
    async with replicas(2, routing=Routing.BROADCAST, kind=Listener) as shop:
        await shop.kill(1)
        shop.worker.note("news")
        await until(lambda: shop[0].notes == ["news"])
        await until(lambda: shop.caller.stats().waiting == 1)
        await shop.start(1)
        await until(lambda: shop[1].notes == ["news"])
        assert shop[0].notes == ["news"]


# -- down, up and ended ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G405")
async def test_while_one_replica_is_up_the_handle_does_not_wait_and_without_any_it_does() -> None:
    async with replicas(2) as shop:
        impatient = when_down(shop.worker, WhenDown.FAIL)
        await shop.kill(0)
        assert await soon(impatient.echo(1)) == 1
        waiting = [asyncio.ensure_future(shop.worker.wait(number)) for number in range(10)]
        await until(lambda: shop.received() == 5)
        await shop.kill(1)
        ends = await soon(asyncio.gather(*waiting, return_exceptions=True))
        assert all(isinstance(end, TargetEndedError) for end in ends)
        causes = [str(end.__cause__) for end in ends if isinstance(end, BaseException)]
        assert sum("in doubt" in cause for cause in causes) == 4
        assert sum("the message did not reach it" in cause for cause in causes) == 6
        with pytest.raises(PodDownError):
            impatient.note("never")
        shop.worker.note("kept")
        shop.check_stats()
        await shop.start(0)
        await until(lambda: shop.caller.stats().waiting == 0)
        assert shop[0].notes == ["kept"]
        stats = shop.caller.stats()
        assert (stats.in_doubt, stats.dead) == (4, 6)


@pytest.mark.guarantee("G405")
async def test_when_all_replicas_are_gone_so_is_the_pod() -> None:
    async with replicas(2) as shop:
        await shop.kill(0)
        shop.retire("workers-0")
        assert await soon(shop.worker.echo(1)) == 1
        await shop.kill(1)
        shop.retire("workers-1")
        shop.retire("workers")
        with pytest.raises(PodGoneError):
            shop.worker.note(2)


@pytest.mark.guarantee("G406")
@pytest.mark.parametrize("how", ["stop", "drain", "kill"])
async def test_the_end_of_the_handle_is_the_end_of_the_role_in_all_replicas(how: str) -> None:
    async with replicas(2, ahead=1) as shop:
        told = [shop[number] for number in range(2)]
        for number in range(6):
            shop.worker.slowly(number)
        await until(lambda: all(each.begun for each in told))
        if how == "kill":
            shop.worker.kill()
        else:
            shop.worker.stop(drain=how == "drain")
        if how == "drain":
            for each in told:
                each.gate.set()
        ended = shop.worker.ended()
        assert await soon(ended) is (ExitReason.FAIL if how == "kill" else ExitReason.NORMAL)
        for number in range(2):
            expected = PodPhase.FAILED if how == "kill" else PodPhase.COMPLETED
            await until(partial(is_in, shop.runtimes[number], expected))
        if how == "drain":
            assert sorted(told[0].notes + told[1].notes) == list(range(6))
        await until(lambda: shop.caller.stats().waiting == 0)
        shop.check_stats()
        # Another incarnation is behind the same handle.
        await shop.start(0)
        assert await soon(shop.worker.echo("again")) == "again"


@pytest.mark.guarantee("G406")
async def test_a_query_is_refused_as_by_any_role_in_another_process() -> None:
    from bandstand.actor import ping

    async with replicas() as shop:
        with pytest.raises(UnknownMessageError, match="'worker' runs in another process"):
            await soon(ping(shop.worker))
        shop.check_stats()


# -- asks and bounds -------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G404")
async def test_a_cancelled_ask_never_begins_or_is_cancelled_where_it_is() -> None:
    async with replicas(1, ahead=1) as shop:
        asks = [asyncio.ensure_future(shop.worker.wait(number)) for number in range(3)]
        await until(lambda: shop[0].begun == [0])
        asks[1].cancel()
        await until(lambda: shop.caller.stats().waiting == 2)
        asks[0].cancel()
        await until(lambda: shop[0].begun == [0, 2])
        assert shop[0].cancelled == 1
        shop[0].gate.set()
        assert await soon(asks[2]) == 2
        with suppress(asyncio.CancelledError):
            await asks[0]
        stats = shop.caller.stats()
        assert (stats.sent, stats.handled, stats.waiting) == (3, 3, 0)
        shop.check_stats()


@pytest.mark.guarantee("G408")
async def test_the_mailbox_of_the_sender_bounds_what_replicas_have_and_what_waits() -> None:
    async with replicas(2, ahead=1, mailbox=6) as shop:
        for number in range(6):
            shop.worker.slowly(number)
            await until(shop.caller.proxy_loop.kernel.is_quiet)
        with pytest.raises(MailboxFullError):
            shop.worker.slowly("too many")
        room = asyncio.ensure_future(shop.worker.slowly.when_room("waits"))
        for number in range(2):
            shop[number].gate.set()
        await soon(room)
        await until(lambda: len(shop[0].notes) + len(shop[1].notes) == 7)
        shop.check_stats()


@pytest.mark.guarantee("G408")
async def test_the_byte_limit_of_the_role_is_for_all_replicas_together() -> None:
    async with replicas(2, mailbox_bytes=100_000) as shop:
        shop.worker.slowly(bytes(90_000))
        shop.worker.slowly(bytes(90_000))
        await until(lambda: shop[0].begun and shop[1].begun)
        with pytest.raises(MailboxFullError, match="mailbox_bytes"):
            shop.worker.slowly(bytes(90_000))
        # A replica that comes or goes does not free the bytes, or keep them.
        await shop.kill(0)
        await shop.start(0)
        shop[1].gate.set()
        await until(lambda: shop.caller.stats().waiting == 0)
        await soon(shop.worker.slowly.when_room(bytes(90_000)))
        shop[0].gate.set()
        await until(lambda: len(shop[0].notes) + len(shop[1].notes) == 2)
        shop.check_stats()


@pytest.mark.guarantee("G408")
async def test_a_broadcast_counts_its_bytes_once_and_until_the_last_copy_has_ended() -> None:
    async with replicas(2, mailbox_bytes=100_000, broadcast=("slowly",)) as shop:
        shop.worker.slowly(bytes(90_000))
        shop.worker.slowly(bytes(90_000))
        await until(lambda: shop[0].begun and shop[1].begun)
        shop[0].gate.set()
        await until(lambda: len(shop[0].notes) == 2)
        with pytest.raises(MailboxFullError):
            shop.worker.slowly(b"x" * 2000)
        shop[1].gate.set()
        await soon(shop.worker.slowly.when_room(b"x" * 2000))
        await until(lambda: len(shop[0].notes) == len(shop[1].notes) == 3)


# -- everything at once ------------------------------------------------------------------------------------------------------


ROUTINGS: dict[str, dict[str, Any]] = {
    "least loaded": {},
    "in turn": {"routing": Routing.ROUND_ROBIN, "ahead": 1},
    "by key": {"routing": ByKey(before_colon), "ahead": 3},
    "with broadcasts": {"broadcast": ("command",), "mailbox": 40},
}


@pytest.mark.slow
@pytest.mark.guarantee("G404")
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("seed", range(5))
async def test_whatever_happens_each_message_has_one_fate(seed: int, routing: str) -> None:
    """Replicas start and die at random while messages are sent, asked and taken back."""
    random = Random(f"{seed} {routing}")
    handled: list[Any] = []
    ended = 0
    async with replicas(3, **ROUTINGS[routing]) as shop:
        up = {0, 1, 2}
        asks: list[asyncio.Future[Any]] = []

        def note_end(_ask: object) -> None:
            nonlocal ended
            ended += 1

        for step in range(300):
            what = f"{random.randrange(5)}:{step}"
            match random.randrange(20):
                case 0 if len(up) > 1:
                    number = random.choice(sorted(up))
                    up.remove(number)
                    await shop.kill(number)
                case 1 if len(up) < 3:
                    number = random.choice(sorted({0, 1, 2} - up))
                    await shop.start(number)
                    up.add(number)
                case 2 if asks:
                    random.choice(asks).cancel()
                case 3 | 4 | 5 | 6:
                    shop.worker.note.try_send(what)
                case 7:
                    shop.worker.command.try_send(what)
                case 8 | 9:
                    # Partly sent when its replica dies, and in the way of others.
                    shop.worker.note.try_send(what + "x" * random.randrange(300_000))
                case 10:
                    await asyncio.sleep(0)
                case _:
                    with suppress(MailboxFullError):
                        asks.append(asyncio.ensure_future(shop.worker.echo(what)))
                        asks[-1].add_done_callback(note_end)
            shop.check_stats()
        for number in sorted({0, 1, 2} - up):
            await shop.start(number)
        ends = await soon(asyncio.gather(*asks, return_exceptions=True))
        await until(lambda: shop.caller.stats().waiting == 0)
        handled.extend(what for notes in shop.notes for what in notes)
        assert ended == len(asks)
        for one, end in zip(asks, ends, strict=True):
            assert one.cancelled() or isinstance(end, str | TargetEndedError)
        lost_in_doubt = sum(each.is_in_doubt for each in shop.lost)
        assert shop.caller.stats().in_doubt == lost_in_doubt
    if routing != "with broadcasts":
        assert len(handled) == len(set(handled))
