"""Cancel tokens: a tree in which each token is cancelled once, with a reason."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.errors import ChannelTimeoutError, InvalidArgumentError, LoopBusyError, TokenCancelledError
from bandstand.scope.cancel import CancelToken
from tests.scope.support import (
    CountingListener,
    captured_log,
    is_cancelled,
    is_linked_correctly,
    listener_count,
    result_of,
    start_waiting,
)

pytestmark = pytest.mark.spec("K4")


# -- cancelling --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G100")
def test_it_is_cancelled_once_and_the_first_reason_stays() -> None:
    token = CancelToken()
    assert not is_cancelled(token)
    assert (token.reason, token.cause, token.origin) == (None, None, None)
    token.raise_if_cancelled()
    assert token.cancel("enough")
    assert not token.cancel("more than enough")
    assert is_cancelled(token)
    assert (token.reason, token.cause, token.origin) == ("enough", None, token.number)


@pytest.mark.guarantee("G100")
def test_the_error_has_the_subject_the_reason_and_the_origin() -> None:
    root, error = CancelToken(), ValueError("no such page")
    token = root.child().child()
    root.cancel(error)
    with pytest.raises(
        TokenCancelledError, match=r"^the work was cancelled: ValueError: no such page$"
    ) as caught:
        token.raise_if_cancelled()
    assert caught.value.__cause__ is error
    assert caught.value.token == root.number
    assert caught.value.reason == token.reason
    one, two = token.error("the dinner"), token.error("the dinner")
    assert one is not two
    assert str(one) == "the dinner was cancelled: ValueError: no such page"


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CancelToken("parent"), "parent is 'parent': pass a CancelToken"),  # type: ignore[arg-type]
        (lambda: CancelToken(loop="loop"), "loop is 'loop': pass a Loop"),  # type: ignore[arg-type]
        (lambda: CancelToken(timeout=-1), "timeout is -1"),
        (lambda: CancelToken(timeout=float("nan")), "timeout is nan"),
        (lambda: CancelToken(timeout="1"), "timeout is '1'"),  # type: ignore[arg-type]
        (lambda: CancelToken(timeout=0.005), "there is no clock here: pass loop="),
        (lambda: CancelToken().cancel(7), "reason is 7: pass a string"),  # type: ignore[arg-type]
        (lambda: CancelToken().on_cancel(5), "callback is 5: pass a function of the token"),  # type: ignore[arg-type]
        (lambda: CancelToken().error("x"), "is not cancelled"),
        (lambda: CancelToken().wait(timeout=-1), "timeout is -1"),
        (lambda: CancelToken().wait(token=7), "token is 7"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_refused_with_a_helpful_error(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words.replace("(", r"\(")):
        make()


def test_it_cannot_be_copied_or_pickled() -> None:
    token = CancelToken()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            attempt(token)


# -- callbacks ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G101")
def test_callbacks_are_called_once_in_order_with_their_token() -> None:
    token, called = CancelToken(), list[tuple[str, CancelToken]]()
    token.on_cancel(lambda which: called.append(("first", which)))
    child = token.child()
    child.on_cancel(lambda which: called.append(("child's", which)))
    token.on_cancel(lambda which: called.append(("last", which)))
    token.cancel()
    token.cancel()
    child.cancel()
    assert called == [("first", token), ("child's", child), ("last", token)]


@pytest.mark.guarantee("G101")
def test_what_a_callback_raises_is_logged_and_all_others_are_called() -> None:
    token, called = CancelToken(), list[str]()

    def fails(_: CancelToken) -> None:
        raise ValueError("oops")

    token.on_cancel(fails)
    token.on_cancel(lambda _: called.append("second"))
    with captured_log() as logged:
        assert token.cancel("enough")
        token.on_cancel(fails)
    assert called == ["second"]
    assert len(logged) == 2
    assert all("for the cancellation of <CancelToken" in line for line in logged)


@pytest.mark.guarantee("G101")
def test_a_keyboard_interrupt_in_a_callback_is_raised_after_all_callbacks() -> None:
    token, called = CancelToken(), list[str]()

    def interrupted(_: CancelToken) -> None:
        raise KeyboardInterrupt

    token.on_cancel(interrupted)
    token.on_cancel(lambda _: called.append("second"))
    token.child().on_cancel(lambda _: called.append("below"))
    with pytest.raises(KeyboardInterrupt):
        token.cancel()
    assert called == ["second", "below"]
    assert token.cancelled


@pytest.mark.guarantee("G101")
def test_a_listener_that_raises_does_not_prevent_the_others() -> None:
    class Broken:
        def on_cancelled(self) -> None:
            raise ValueError("oops")

    token, listener = CancelToken(), CountingListener()
    token.add_listener(Broken())
    token.add_listener(listener)
    with captured_log() as logged:
        token.cancel()
    assert listener.calls == 1
    assert "the other listeners are notified" in logged[0]


# -- listeners ---------------------------------------------------------------------------------------------------------


class Meddling(dict[Any, None]):
    """Replaces a parent's listeners: the next access simulates a finalizer that runs first."""

    def __init__(self) -> None:
        super().__init__()
        self.finalizer: Callable[[], object] | None = None
        self.moment = ""
        self.has_come = False

    def come(self, moment: str) -> None:
        if self.moment == moment and self.finalizer is not None:
            finalizer, self.finalizer = self.finalizer, None
            self.has_come = True
            finalizer()

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        self.come("look")
        return found

    def __setitem__(self, key: Any, value: None) -> None:
        self.come("in")
        super().__setitem__(key, value)

    def pop(self, *args: Any) -> Any:
        self.come("out")
        return super().pop(*args)


@pytest.mark.guarantee("G101", "G102")
@pytest.mark.parametrize("meddler", ["cancel", "dismiss", "enlist"])
@pytest.mark.parametrize(
    ("change", "moment"), [("comes", "look"), ("comes", "in"), ("goes", "look"), ("goes", "out")]
)
def test_a_finalizer_in_the_middle_of_a_change_breaks_nothing(change: str, moment: str, meddler: str) -> None:
    """It runs at the worst moment: in the middle of a change, under the lock, on the same thread."""
    root = CancelToken()
    child, first, second = root.child(), CountingListener(), CountingListener()
    meddling = root.listeners = Meddling()  # pyright: ignore[reportPrivateUsage]  # there is no other way to that moment
    if change == "goes":
        child.add_listener(first)
    meddling.moment = moment
    meddling.finalizer = {
        "cancel": lambda: root.cancel("finalizer"),
        "dismiss": lambda: child.remove_listener(first),
        "enlist": lambda: child.add_listener(second),
    }[meddler]
    if change == "goes":
        child.remove_listener(first)
    else:
        child.add_listener(first)
    assert meddling.has_come
    assert is_linked_correctly(child)
    root.cancel("in the end")
    assert first.calls == (change == "comes" and meddler != "dismiss")
    assert second.calls == (meddler == "enlist")
    assert listener_count(root) == listener_count(child) == 0


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G101")
async def test_tasks_that_wait_are_woken_with_the_reason() -> None:
    root = CancelToken()
    token = root.child()
    one, two = await start_waiting(token.wait()), await start_waiting(token.wait())
    assert listener_count(token) == 2
    root.cancel("enough")
    assert [await one, await two] == ["enough", "enough"]
    assert await token.wait() == "enough"
    assert await token.wait(timeout=0) == "enough"
    assert listener_count(root) == listener_count(token) == 0


@pytest.mark.guarantee("G101")
async def test_a_wait_ends_by_its_timeout_by_another_token_and_by_asyncio() -> None:
    token, other = CancelToken(), CancelToken()
    with pytest.raises(
        ChannelTimeoutError, match=r"the cancellation of <CancelToken \d+> did not come within 20 ms"
    ):
        await token.wait(timeout=0.02)
    with pytest.raises(ChannelTimeoutError):
        await token.wait(timeout=0)
    task = await start_waiting(token.wait(token=other))
    other.cancel("other")
    assert await result_of(task) is TokenCancelledError
    task = await start_waiting(token.wait())
    task.cancel()
    assert await result_of(task) is asyncio.CancelledError
    assert listener_count(token) == listener_count(other) == 0
    assert not token.cancelled


@pytest.mark.guarantee("G101")
async def test_a_wait_can_be_used_once_and_does_not_block_an_event_loop() -> None:
    token = CancelToken()
    with pytest.raises(LoopBusyError):
        token.wait().blocking()
    token.cancel("enough")
    wait = token.wait()
    assert await wait == "enough"
    with pytest.raises(InvalidArgumentError, match="once"):
        await wait
    assert await asyncio.to_thread(token.wait().blocking) == "enough"


@pytest.mark.guarantee("G273")
def test_a_token_cannot_be_initialised_again_with_itself_as_its_ancestor() -> None:
    token = CancelToken()
    for parent in (token, token.child(), None):
        with pytest.raises(InvalidArgumentError, match="was already initialised"):
            token.__init__(parent)
    assert not token.cancelled
