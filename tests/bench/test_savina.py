"""A run of one of Savina's programs that went wrong has no figure: a lost message, a doubled one, a wrong answer."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from bandstand.actor import tell
from bandstand.core import Loop
from bench import raw, workers
from bench.case import Outcome, Setting, WrongResultError
from bench.cases import buffer, chameneos, dictionary, fibonacci, sortedlist
from bench.stage import Send
from bench.stages.raw import RawStage

Fault = Callable[[Send], Send]

HOMES = [buffer, chameneos, dictionary, fibonacci, sortedlist]
NAMES = [home.CASE.name for home in HOMES]
AT = 120
"""Which message goes wrong: one in the middle of each."""


def times(count: int) -> Fault:
    """A send that sends one message, in the middle of the run, this many times."""

    def faulty(send: Send) -> Send:
        sent = 0

        def wrapper(who: object, data: object) -> None:
            nonlocal sent
            sent += 1
            for _ in range(count if sent == AT else 1):
                send(who, data)

        return wrapper

    return faulty


def perform(home: ModuleType, fault: Fault) -> Outcome:
    """Play a program on a loop whose sends have a fault."""
    loop: Loop = raw.make()
    stage = RawStage(loop)
    stage.send = fault(stage.send)
    play = home.program(stage, Setting(home.CASE.size.quick))
    play.begin()
    loop.run(until_idle=True)
    ended = loop.statistics().ended_normal
    loop.destroy()
    outcome: Outcome = play.outcome(1, ended)
    outcome.check()
    return outcome


@pytest.mark.parametrize("home", HOMES, ids=NAMES)
def test_a_program_that_loses_a_message_or_handles_one_twice_has_no_figure(home: ModuleType) -> None:
    assert perform(home, times(1)).operations > AT
    # A tree of Fibonacci numbers ignores an answer that comes twice.
    for count in (0,) if home is fibonacci else (0, 2):
        with pytest.raises(WrongResultError):
            perform(home, times(count))


class Forgetful(dictionary.Store):
    @tell
    def write(self, who: dictionary.Worker, key: int, value: int) -> None:  # that is the fault
        self.books.served += 1
        who.answer(value)


def test_a_typed_actor_that_does_not_do_its_work_has_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dictionary, "Store", Forgetful)
    with pytest.raises(WrongResultError, match=r"the answers to worker \d+ make"):
        dictionary.classes(Setting(dictionary.CASE.size.quick))


def test_the_largest_tree_is_no_larger_than_the_size_and_answers_its_number() -> None:
    sizes = {1: 3, 3: 3, 150_048: 24, 150_049: 25, 13_529 // 5: 16}
    assert {size: fibonacci.largest(size) for size in sizes} == sizes
    assert fibonacci.fibonacci(25) == 75_025
    assert fibonacci.lived(25, 150_049, 75_025) == 150_049
    with pytest.raises(WrongResultError, match="Fibonacci number 25 is 75025, and the tree answered 75024"):
        fibonacci.lived(25, 150_049, 75_024)


def test_an_answer_that_is_not_what_was_written_has_no_figure() -> None:
    books = dictionary.Books(dictionary.CASE.size.quick)
    for worker, total in enumerate(dictionary.answers(books.requests)):
        books.leave(worker, books.requests, total)
    assert books.handled() == books.sent // 2
    books.leave(7, 0, 1)
    with pytest.raises(WrongResultError, match=r"the answers to worker 7 make \d+, and it has found 1"):
        books.handled()


def test_the_list_is_sorted_and_knows_what_is_in_it() -> None:
    store, model = sortedlist.SortedList(), set(range(0, 100, 2))
    for value in (0, 1, 99, 98, 50, 51, 1, 0, 98):
        assert store.contains(value) == (value in model)
        model ^= {value}
        assert store.change(value) == store.contains(value) == (value in model)
        assert list(store.values()) == sorted(model)
        assert store.size() == len(model)


def test_a_list_with_something_else_in_it_has_no_figure() -> None:
    books = sortedlist.Books(0)
    for worker in range(workers.WORKERS):
        books.leave(worker, 0, 0)
    assert books.handled() == 0
    books.store.change(1)
    with pytest.raises(WrongResultError, match="the list has 50 values in the end"):
        books.handled()


def test_an_item_that_is_lost_or_doubled_or_one_too_many_has_no_figure() -> None:
    books = buffer.Books(buffer.CASE.size.quick)
    books.consumed[0] += range(books.items)
    assert books.handled() == books.items == 400
    books.consumed[0][7] = 8
    with pytest.raises(
        WrongResultError, match="400 items were to be consumed once; 400 were, 399 of them different"
    ):
        books.handled()
    books.consumed[0][7] = 7
    books.most = 51
    with pytest.raises(WrongResultError, match="there is room for 50 items, and 51 were kept"):
        books.handled()
