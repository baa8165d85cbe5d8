"""A run of a program of the benchmark that lost a message, handled one twice or came to a wrong answer has no figure."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import pytest

from bandstand.actor import tell
from bandstand.core import Loop
from bench import raw
from bench.case import Outcome, Setting, WrongResultError
from bench.cases import (
    bank,
    barber,
    big,
    bounded,
    buffer,
    chameneos,
    counting,
    create,
    dictionary,
    fanin,
    fibonacci,
    forkjoin,
    logistic,
    philosophers,
    pingpong,
    ring,
    skynet,
    smokers,
    sortedlist,
)
from bench.stage import Send
from bench.stages.raw import RawStage

Fault = Callable[[Send], Send]

# The programs that end in another way if a message comes twice.
NOTICES_DOUBLES = (
    *(bank, barber, big, bounded, buffer, chameneos, counting, dictionary, fanin, forkjoin, logistic),
    *(smokers, sortedlist),
)
PROGRAMS = (*NOTICES_DOUBLES, create, fibonacci, philosophers, pingpong, ring, skynet)
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


@pytest.mark.parametrize("home", PROGRAMS, ids=lambda home: home.CASE.name)
def test_a_program_that_loses_a_message_or_handles_one_twice_has_no_figure(home: ModuleType) -> None:
    assert perform(home, times(1)).operations > 0
    for count in (0, 2) if home in NOTICES_DOUBLES else (0,):
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
