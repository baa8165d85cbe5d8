"""A node with a journal that is killed with SIGKILL, again and again: every command has one fate, and nothing that was acknowledged is lost.

`make soak` kills it a thousand times.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from bandstand.bus import connect
from bandstand.bus.durable.records import KIND_NAMES
from tests.bus.durable_chaos import KINDS, Books, Chaos, draw_plans
from tests.bus.durable_node import read_ledger

pytestmark = [
    pytest.mark.slow,
    pytest.mark.real_time(reason="it needs processes that are killed"),
]


@pytest.mark.spec("C28")
@pytest.mark.guarantee("G476", "G477", "G478", "G479")
def test_every_command_has_one_fate_over_kills(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    plans = draw_plans(Random(1), len(KINDS) + 5)
    chaos = Chaos(tmp_path, 1, plans)
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        report = runner.run(chaos.play())
    assert report.failures == []
    assert report.kills.keys() == {
        *(KIND_NAMES[kind] for kind in KINDS),
        "random",
        "poison",
        "poison again",
        "poisoned",
    }
    assert report.answers["reply"] > 0
    check_that_faults_are_found(chaos, tmp_path)


class LateOperator(Chaos):
    """Its operator loses its connection to the last node, and connects again when all others have gone."""

    async def _operator(self) -> None:
        async with connect(self._address, self._config):
            pass
        await asyncio.sleep(0.5)
        await super()._operator()


def test_the_last_node_waits_for_clients_that_connect_late(
    tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        report = runner.run(LateOperator(tmp_path, 1, [], patience=10).play())
    assert report.failures == []


def check_that_faults_are_found(chaos: Chaos, folder: Path) -> None:
    """The same books with one fault each."""
    once = next(
        each
        for each, count in Counter(read_ledger(folder / "ledger")).items()
        if count == 1 and each[0] == "Worker.Work"
    )
    sender = next(
        stories[0]
        for (name, _), stories in Books(folder).stories.items()
        if name == "Sender.Send" and stories[0].answers == ["reply"]
    )

    def found_after(change: Callable[[Books], object]) -> str:
        books = Books(folder)
        change(books)
        return "\n".join(chaos.contradictions(books))

    assert "was executed 2 times" in found_after(lambda books: books.executions.update([once]))
    assert "was not executed" in found_after(
        lambda books: books.executions.pop(("Sender.Send", sender.number))
    )
    assert "is not in the journal" in found_after(
        lambda books: books.stories.pop(("Sender.Send", sender.number))
    )
    assert "there is event 0 times" in found_after(lambda books: books.events.pop(sender.number))
    assert "there is Worker.Work 0 times" in found_after(
        lambda books: books.stories.pop(("Worker.Work", sender.number + 1))
    )
    assert "has not exactly one fate" in found_after(
        lambda books: books.stories["Sender.Send", sender.number][0].answers.append("reply")
    )
    assert "is a dead letter with the reason None" in found_after(lambda books: books.dead.clear())
