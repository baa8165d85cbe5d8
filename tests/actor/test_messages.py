"""Messages as classes: which method handles a message, its lane, and the forms of `tell` and `ask`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bandstand.actor import ActorSystem, MessageActor, ask, on
from bandstand.errors import (
    AskTimeoutError,
    InvalidArgumentError,
    LoopBusyError,
    MailboxFullError,
    NoSuchActorError,
    UnknownMessageError,
)
from bandstand.testing import VirtualClock
from tests.actor.accounts import Account, Balance, BigDeposit, Bonus, Close, Deposit, Stranger
from tests.actor.answers import answer, outcome
from tests.actor.players import elsewhere

pytestmark = [pytest.mark.guarantee("G58"), pytest.mark.spec("S11")]


@pytest.mark.spec("S4")
def test_a_message_is_handled_by_the_method_for_its_class_on_its_lane(loop: ActorSystem) -> None:
    lines: list[str] = []
    account = loop.spawn(Account, lines)
    account.tell(Deposit(5))
    account.also("method")
    account.tell(Bonus(3))
    account.tell(Close())
    assert answer(loop, account.ask(Balance())) == 11
    assert lines == ["close", "bonus", "Deposit", "method"]
    assert answer(loop, account.ask(Balance(times=2))) == 22


def test_a_derived_message_is_handled_by_the_base_handler_unless_it_has_its_own(loop: ActorSystem) -> None:
    class Huge(BigDeposit):
        pass

    lines: list[str] = []
    account = loop.spawn(Account, lines)
    for _ in range(2):
        account.tell(BigDeposit(1))
        account.tell(Huge(1))
        account.tell(Bonus(1))
    loop.run(until_idle=True)
    assert sorted(lines) == ["BigDeposit", "BigDeposit", "Huge", "Huge", "bonus", "bonus"]


def test_the_nearest_base_class_decides(loop: ActorSystem) -> None:
    class Left: ...

    class Right: ...

    class Both(Left, Right): ...

    class Turned(Right, Left): ...

    class Sorter(MessageActor[Left | Right]):
        def __init__(self) -> None:
            self.lines: list[str] = []

        @on(Left)
        def left(self, message: Left) -> None:
            self.lines.append("left")

        @on(Right)
        def right(self, message: Right) -> None:
            self.lines.append("right")

        @ask
        def all(self) -> list[str]:
            return self.lines

    sorter = loop.spawn(Sorter)
    for message in (Both(), Turned(), Left(), Right()):
        sorter.tell(message)
    assert answer(loop, sorter.all()) == ["left", "right", "left", "right"]


def test_the_forms_of_tell(loop: ActorSystem) -> None:
    account = loop.options(mailbox=1).spawn(Account)
    tell = account.tell
    while tell.try_send(Deposit(1)):
        pass
    with pytest.raises(MailboxFullError):
        tell(Deposit(1))
    landing = account.tell.when_room(Deposit(100))
    assert not landing.done()
    assert account.tell.try_send(Close())
    loop.run(until_idle=True)
    assert outcome(landing) is None
    assert answer(loop, account.ask(Balance())) > 100
    account.kill()
    assert account.tell.try_send(Deposit(1)) is False
    for send in (account.tell, account.tell.when_room):
        with pytest.raises(NoSuchActorError, match="Account"):
            send(Deposit(1))
    with pytest.raises(NoSuchActorError, match="Account"):
        account.ask(Balance()).cancel()


@pytest.mark.guarantee("G61")
@pytest.mark.parametrize(
    ("given", "expected"),
    [({}, 300), ({"timeout": 0.04}, 40), ({"timeout": 0.0005}, 1), ({"timeout": None}, None)],
    ids=str,
)
def test_a_request_has_the_deadline_of_its_class_or_of_the_call(
    clock: VirtualClock, given: dict[str, Any], expected: int | None
) -> None:
    class Slow(MessageActor[Balance], ask_timeout=0.3):
        @on(Balance)
        async def answer(self, message: Balance) -> int:
            await asyncio.sleep(1000)
            return 5

    async def main() -> float | None:
        async with ActorSystem(clock=clock) as loop:
            slow = loop.spawn(Slow)
            start = asyncio.get_running_loop().time()
            try:
                assert await slow.ask(Balance(), **given) == 5
            except AskTimeoutError:
                return (asyncio.get_running_loop().time() - start) * 1000
            return None

    with asyncio.Runner(loop_factory=clock.new_event_loop) as runner:
        assert runner.run(main()) == pytest.approx(expected, abs=2)


@pytest.mark.parametrize("bad", [-1, -1.0, -2, "5", float("nan"), True])
def test_a_deadline_must_be_a_duration(loop: ActorSystem, bad: Any) -> None:
    account = loop.spawn(Account)
    with pytest.raises(InvalidArgumentError, match="timeout is "):
        account.ask(Balance(), timeout=bad).cancel()
    assert loop.statistics().sent == 0


def test_an_unknown_message_raises_in_the_caller_and_is_not_sent(loop: ActorSystem) -> None:
    account: Any = loop.options(name="a").spawn(Account)
    for send in (account.tell, account.tell.try_send, account.tell.when_room, account.ask):
        for message in (Stranger(), 5, None, Deposit):
            with pytest.raises(
                UnknownMessageError,
                match=r"Account 'a'.* has no method for messages of \w+; it has methods for ",
            ):
                send(message)
    assert issubclass(UnknownMessageError, TypeError)
    assert loop.statistics().sent == 0


def test_requests_use_ask_and_other_messages_use_tell(loop: ActorSystem) -> None:
    account: Any = loop.spawn(Account)
    for send in (account.tell, account.tell.try_send, account.tell.when_room):
        with pytest.raises(
            UnknownMessageError, match=r"Balance is a Request, which is answered: use `await handle\.ask"
        ):
            send(Balance())
    with pytest.raises(
        UnknownMessageError, match=r"Deposit is not a Request, so it is not answered: use handle\.tell"
    ):
        account.ask(Deposit(1))
    assert loop.statistics().sent == 0
    for send in (account.tell, account.tell.try_send, account.tell.when_room, account.ask):
        for wrong in ((), (Deposit(1), Deposit(2))):
            with pytest.raises(TypeError):
                send(*wrong)


def test_inside_the_actor_tell_sends_and_a_method_is_called(loop: ActorSystem) -> None:
    class Inner(MessageActor[Deposit | Balance]):
        def __init__(self) -> None:
            self.lines: list[int] = []

        @on(Deposit)
        def deposit(self, message: Deposit) -> None:
            self.lines.append(message.amount)

        @on(Balance)
        def balance(self, message: Balance) -> int:
            self.tell(Deposit(1))
            self.me.tell(Deposit(2))
            self.deposit(Deposit(3))
            return sum(self.lines)

    inner = loop.spawn(Inner)
    assert answer(loop, inner.ask(Balance())) == 3
    assert answer(loop, inner.ask(Balance())) == 9
    alone: Any = Inner()
    with pytest.raises(LoopBusyError, match="does not run as an actor"):
        alone.tell(Deposit(1))
    with pytest.raises(LoopBusyError, match="does not run as an actor"):
        alone.ask(Balance())


def test_a_blocking_request_on_the_loop_thread_is_refused(loop: ActorSystem) -> None:
    account = loop.spawn(Account)
    with pytest.raises(LoopBusyError):
        account.ask.blocking(Balance())
    wrong: Any = account
    for send in (wrong.ask.blocking, wrong.ask.future):
        with pytest.raises(UnknownMessageError):
            send(Stranger())
        with pytest.raises(UnknownMessageError, match="Deposit is not a Request"):
            send(Deposit(1))
    assert loop.statistics().sent == 0


def test_a_request_can_be_asked_from_a_plain_thread(loop: ActorSystem) -> None:
    """As any other ask."""
    account: Any = loop.spawn(Account)
    futures: list[Any] = []
    later = account.ask.future

    def work() -> None:
        account.tell(Deposit(4))
        futures.append(later(Balance()))

    elsewhere(work)
    loop.run(until_idle=True)
    assert [future.result(timeout=30) for future in futures] == [4]
