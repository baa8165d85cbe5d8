"""Cancel tokens: a tree of wishes that something end, each fulfilled once, for a reason."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.errors import Cancelled, ChannelTimeout, InvalidArgument, LoopBusy
from bandstand.scope.cancel import CancelToken
from bandstand.scope.channel import Channel
from tests.scope.tokens import Ear, heard, hushed, is_over, is_tidy, outcome, perform, turns, waiting

pytestmark = pytest.mark.spec("K4")


# -- being cancelled ---------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G100")
def test_it_is_cancelled_once_and_the_first_reason_stays() -> None:
    token = CancelToken()
    assert not is_over(token)
    assert (token.reason, token.cause, token.origin) == (None, None, None)
    token.raise_if_cancelled()
    assert token.cancel("enough")
    assert not token.cancel("more than enough")
    assert is_over(token)
    assert (token.reason, token.cause, token.origin) == ("enough", None, token.number)


@pytest.mark.guarantee("G100")
def test_the_reason_may_be_an_exception_or_none() -> None:
    token, error = CancelToken(), ValueError("no such page")
    token.cancel(error)
    assert token.cause is error
    assert token.reason == "ValueError: no such page"
    bare = CancelToken()
    bare.cancel(KeyboardInterrupt())
    assert bare.reason == "KeyboardInterrupt"
    silent = CancelToken()
    silent.cancel()
    assert (silent.reason, silent.cause) == ("no reason was given", None)


@pytest.mark.guarantee("G100")
def test_the_error_says_what_why_and_where_it_began() -> None:
    root, error = CancelToken(), ValueError("no such page")
    token = root.child().child()
    root.cancel(error)
    with pytest.raises(Cancelled, match=r"^the work was cancelled: ValueError: no such page$") as caught:
        token.raise_if_cancelled()
    assert caught.value.__cause__ is error
    assert caught.value.token == root.number
    assert caught.value.reason == token.reason
    one, two = token.error("the dinner"), token.error("the dinner")
    assert one is not two
    assert str(one) == "the dinner was cancelled: ValueError: no such page"


@pytest.mark.guarantee("G100")
def test_numbers_are_serial() -> None:
    one = CancelToken()
    assert CancelToken().number == one.number + 1
    assert one.child().number == one.number + 2


@pytest.mark.guarantee("G100")
def test_a_parent_takes_its_children_with_it_and_never_the_other_way_round() -> None:
    root = CancelToken()
    left, right = root.child(), root.child()
    leaf = left.child()
    left.cancel("left")
    assert (left.reason, leaf.reason) == ("left", "left")
    assert not root.cancelled
    assert not right.cancelled
    root.cancel("all")
    assert (right.reason, right.origin) == ("all", root.number)
    assert (leaf.reason, leaf.origin) == ("left", left.number), "the first reason stays"
    assert not right.cancel("again")
    assert root.child().reason == "all", "a child that comes too late is cancelled"


@pytest.mark.guarantee("G100")
def test_a_child_that_nobody_listened_to_or_looked_at_has_its_parents_reason() -> None:
    root = CancelToken()
    child = root.child()
    root.cancel("all")
    assert not child.cancel("mine")
    assert child.reason == "all"


@pytest.mark.slow
def test_trees_may_be_deep() -> None:
    root = CancelToken()
    chain = [root]
    told: list[int] = []
    for _ in range(5000):
        chain.append(chain[-1].child())
        chain[-1].on_cancel(lambda token: told.append(token.number))
    leaf = root
    for _ in range(5000):
        leaf = leaf.child()
    root.cancel("all")
    assert told == [token.number for token in chain[1:]]
    assert leaf.reason == "all"
    assert all(heard(token) == 0 for token in chain)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CancelToken("parent"), "parent is 'parent': pass a CancelToken"),  # type: ignore[arg-type]
        (lambda: CancelToken(loop="loop"), "loop is 'loop': pass a Loop"),  # type: ignore[arg-type]
        (lambda: CancelToken(timeout_ms=-1), "timeout_ms is -1"),
        (lambda: CancelToken(timeout_ms=float("nan")), "timeout_ms is nan"),
        (lambda: CancelToken(timeout_ms="1"), "timeout_ms is '1'"),  # type: ignore[arg-type]
        (lambda: CancelToken(timeout_ms=5), "there is no clock here: pass loop="),
        (lambda: CancelToken().cancel(7), "reason is 7: pass a string"),  # type: ignore[arg-type]
        (lambda: CancelToken().on_cancel(5), "callback is 5: pass a function of the token"),  # type: ignore[arg-type]
        (lambda: CancelToken().error("x"), "is not cancelled"),
        (lambda: CancelToken().wait(timeout_ms=-1), "timeout_ms is -1"),
        (lambda: CancelToken().wait(token=7), "token is 7"),  # type: ignore[arg-type]
    ],
)
def test_misuse_is_refused_in_words(make: Callable[[], object], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words.replace("(", r"\(")):
        make()


def test_a_refused_reason_cancels_nothing() -> None:
    token = CancelToken()
    with pytest.raises(InvalidArgument):
        token.cancel(7)  # type: ignore[arg-type]
    assert not token.cancelled


def test_it_cannot_be_copied_or_pickled() -> None:
    token = CancelToken()
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="cannot be pickled or copied"):
            attempt(token)


def test_it_says_how_it_stands() -> None:
    token = CancelToken()
    assert repr(token) == f"<CancelToken {token.number} open>"
    token.cancel("enough")
    assert repr(token) == f"<CancelToken {token.number} cancelled: enough>"


# -- callbacks ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G101")
def test_functions_are_called_once_in_order_with_their_token() -> None:
    token, told = CancelToken(), list[tuple[str, CancelToken]]()
    token.on_cancel(lambda which: told.append(("first", which)))
    child = token.child()
    child.on_cancel(lambda which: told.append(("child's", which)))
    token.on_cancel(lambda which: told.append(("last", which)))
    token.cancel()
    token.cancel()
    child.cancel()
    assert told == [("first", token), ("child's", child), ("last", token)]


@pytest.mark.guarantee("G101")
def test_one_that_comes_late_is_called_at_once() -> None:
    token, told = CancelToken(), list[CancelToken]()
    token.cancel()
    take_back = token.on_cancel(told.append)
    assert told == [token]
    assert not take_back()
    assert heard(token) == 0


@pytest.mark.guarantee("G101")
def test_one_that_is_taken_back_is_never_called() -> None:
    token, told = CancelToken(), list[str]()
    take_back = token.on_cancel(lambda _: told.append("one"))
    take_back_same = token.on_cancel(told_two := lambda _: told.append("two"))
    token.on_cancel(told_two)
    assert take_back()
    assert not take_back()
    assert take_back_same()
    token.cancel()
    assert told == ["two"]
    assert not take_back()


@pytest.mark.guarantee("G101")
def test_what_a_function_raises_is_logged_and_all_others_are_called() -> None:
    token, told = CancelToken(), list[str]()

    def fails(_: CancelToken) -> None:
        raise ValueError("oops")

    token.on_cancel(fails)
    token.on_cancel(lambda _: told.append("second"))
    with hushed() as said:
        assert token.cancel("enough")
        token.on_cancel(fails)
    assert told == ["second"]
    assert len(said) == 2
    assert all("for the cancellation of <CancelToken" in line for line in said)


@pytest.mark.guarantee("G101")
def test_a_ctrl_c_in_a_function_goes_on_when_all_have_been_told() -> None:
    token, told = CancelToken(), list[str]()

    def interrupted(_: CancelToken) -> None:
        raise KeyboardInterrupt

    token.on_cancel(interrupted)
    token.on_cancel(lambda _: told.append("second"))
    token.child().on_cancel(lambda _: told.append("below"))
    with pytest.raises(KeyboardInterrupt):
        token.cancel()
    assert told == ["second", "below"]
    assert token.cancelled


@pytest.mark.guarantee("G101")
def test_a_listener_that_raises_does_not_keep_others_from_being_told() -> None:
    class Broken:
        def on_cancelled(self) -> None:
            raise ValueError("oops")

    token, ear = CancelToken(), Ear()
    token.add_listener(Broken())
    token.add_listener(ear)
    with hushed() as said:
        token.cancel()
    assert ear.told == 1
    assert "the other listeners are notified" in said[0]


@pytest.mark.guarantee("G101")
def test_a_function_may_do_anything_with_the_tree() -> None:
    root = CancelToken()
    child, told = root.child(), list[Any]()

    def meddle(token: CancelToken) -> None:
        told.append(child.cancelled)
        told.append(child.cancel("mine"))
        child.on_cancel(lambda _: told.append("late"))
        told.append(take_back())
        token.child().on_cancel(lambda _: told.append("newborn"))

    root.on_cancel(meddle)
    child.on_cancel(lambda _: told.append("child's"))
    take_back = root.on_cancel(lambda _: told.append("too late to be taken back"))
    root.cancel("all")
    # The child's function is called by the cancel() in `meddle`, as it has not been told yet: once.
    assert told == [True, "child's", False, "late", False, "newborn", "too late to be taken back"]


# -- listeners ---------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G102")
def test_a_token_stands_with_its_parent_just_while_somebody_listens() -> None:
    root = CancelToken()
    middle = root.child()
    leaf, sibling = middle.child(), middle.child()
    one, two, three = Ear(), Ear(), Ear()
    assert heard(root) == heard(middle) == 0
    leaf.add_listener(one)
    leaf.add_listener(two)
    sibling.add_listener(three)
    assert (heard(root), heard(middle), heard(leaf)) == (1, 2, 2)
    assert leaf.remove_listener(one)
    assert sibling.remove_listener(three)
    assert not sibling.remove_listener(three)
    assert (heard(root), heard(middle), heard(leaf)) == (1, 1, 1)
    assert leaf.remove_listener(two)
    assert (heard(root), heard(middle), heard(leaf)) == (0, 0, 0)
    assert is_tidy(root, middle, leaf, sibling)


@pytest.mark.guarantee("G101")
def test_a_listener_is_told_once_and_one_that_comes_late_at_once() -> None:
    root = CancelToken()
    leaf = root.child().child()
    one, two = Ear(), Ear()
    leaf.add_listener(one)
    leaf.add_listener(one)
    root.cancel()
    leaf.cancel()
    leaf.add_listener(two)
    assert (one.told, two.told) == (1, 1)
    assert not leaf.remove_listener(one)
    assert not leaf.remove_listener(two)
    assert heard(root) == heard(leaf) == 0


@pytest.mark.guarantee("G102")
def test_a_dropped_child_is_garbage_at_once() -> None:
    root = CancelToken()
    child = root.child()
    take_back = child.on_cancel(lambda _: None)
    ghost = weakref.ref(child)
    take_back()
    del take_back
    gc.disable()
    try:
        del child
        assert ghost() is None, "not even a cycle"
    finally:
        gc.enable()


@pytest.mark.slow
@pytest.mark.guarantee("G102")
def test_a_child_that_is_listened_to_lives_without_anybody_holding_it() -> None:
    root, told = CancelToken(), list[str]()
    root.child().child().on_cancel(lambda _: told.append("told"))
    gc.collect()
    root.cancel()
    assert told == ["told"]


class Meddling(dict[Any, None]):
    """Stands in for a parent's list: the next time it is looked at or changed, a finalizer comes first."""

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
def test_a_finalizer_that_comes_in_between_breaks_nothing(change: str, moment: str, meddler: str) -> None:
    """Made to come at the worst moment: in the middle of a change, under the lock, on the same thread."""
    root = CancelToken()
    child, first, second = root.child(), Ear(), Ear()
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
    assert is_tidy(child)
    root.cancel("in the end")
    assert first.told == (change == "comes" and meddler != "dismiss")
    assert second.told == (meddler == "enlist")
    assert heard(root) == heard(child) == 0


# -- waiting -----------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G101")
def test_tasks_that_wait_are_woken_with_the_reason() -> None:
    async def main() -> None:
        root = CancelToken()
        token = root.child()
        one, two = await waiting(token.wait()), await waiting(token.wait())
        assert heard(token) == 2
        root.cancel("enough")
        assert [await one, await two] == ["enough", "enough"]
        assert await token.wait() == "enough"
        assert await token.wait(timeout_ms=0) == "enough"
        assert heard(root) == heard(token) == 0

    perform(main)


@pytest.mark.guarantee("G101")
def test_a_wait_ends_by_its_own_deadline_by_another_token_and_by_asyncio() -> None:
    async def main() -> None:
        token, other = CancelToken(), CancelToken()
        with pytest.raises(
            ChannelTimeout, match=r"the cancellation of <CancelToken \d+> did not come within 20 ms"
        ):
            await token.wait(timeout_ms=20)
        with pytest.raises(ChannelTimeout):
            await token.wait(timeout_ms=0)
        task = await waiting(token.wait(token=other))
        other.cancel("other")
        assert await outcome(task) is Cancelled
        task = await waiting(token.wait())
        task.cancel()
        assert await outcome(task) is asyncio.CancelledError
        assert heard(token) == heard(other) == 0
        assert not token.cancelled

    perform(main)


@pytest.mark.guarantee("G101")
def test_a_wait_is_for_once_and_not_for_the_thread_of_an_event_loop() -> None:
    async def main() -> None:
        token = CancelToken()
        with pytest.raises(LoopBusy):
            token.wait().blocking()
        token.cancel("enough")
        wait = token.wait()
        assert await wait == "enough"
        with pytest.raises(InvalidArgument, match="once"):
            await wait

    perform(main)
    token = CancelToken()
    token.cancel("enough")
    assert token.wait().blocking() == "enough"


@pytest.mark.guarantee("G104")
def test_an_operation_that_waits_with_a_token_ends_with_cancelled_and_not_with_asyncios() -> None:
    async def main() -> None:
        token, channel = CancelToken(), Channel[int]()
        task = await waiting(channel.receive(token=token.child()))
        token.cancel("enough")
        await turns()
        error = task.exception()
        assert isinstance(error, Cancelled)
        assert (error.reason, error.token) == ("enough", token.number)
        assert not isinstance(error, asyncio.CancelledError)
        with pytest.raises(Cancelled):
            await channel.receive(token=token)
        assert heard(token) == 0

    perform(main)


@pytest.mark.guarantee("G104")
def test_a_cancelled_task_leaves_nothing_with_the_token_it_waited_with() -> None:
    async def main() -> None:
        token = CancelToken()
        task = await waiting(Channel[int]().receive(token=token.child().child()))
        assert heard(token) == 1
        task.cancel()
        await outcome(task)
        assert heard(token) == 0
        assert not token.cancelled

    perform(main)


@pytest.mark.guarantee("G273")
def test_a_token_cannot_be_initialised_again_with_itself_as_its_ancestor() -> None:
    token = CancelToken()
    for parent in (token, token.child(), None):
        with pytest.raises(InvalidArgument, match="was already initialised"):
            token.__init__(parent)
    assert not token.cancelled
