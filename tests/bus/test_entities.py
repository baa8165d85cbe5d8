"""Entities on a node with a journal."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import Capability
from bandstand.bus.durable.records import KIND_NAMES
from bandstand.journal import JournalReader
from tests.bus.bank import Account, QuickAccount
from tests.bus.virtual_node import Stage, hushed, play

Act = Callable[[Stage], Coroutine[Any, Any, None]]


@pytest.fixture(autouse=True)
def clean() -> None:
    Account.hooks.clear()
    Account.broken.clear()
    QuickAccount.restored.clear()


class Disk:
    """The journal of a node, and copies of it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = directory / "journal"
        self._copies = 0

    def crash(self) -> None:
        """Keep the journal as it is now, for the next node. Its index is lost."""
        self._copies += 1
        # The thread of the index may be writing.
        ignore = shutil.ignore_patterns("index.*")
        shutil.copytree(self.journal, self._directory / str(self._copies), ignore=ignore)

    def play(self, act: Act, *kinds: type[Capability], **fields: Any) -> None:
        """Run a node on the journal; then put back what the last crash has left, if there was one."""
        before = self._copies
        with hushed():
            play(act, *(kinds or (Account,)), journal=self.journal, **fields)
        if self._copies > before:
            shutil.rmtree(self.journal)
            shutil.copytree(self._directory / str(self._copies), self.journal)

    def kinds(self) -> list[list[str]]:
        """Return the kinds of the records, page by page, without those of the start of a node."""
        with JournalReader(self.journal) as reader:
            pages = [[KIND_NAMES[record.kind] for record in page.records] for page in reader.pages()]
        return [page for page in pages if page != ["boot"] and "eventSchema" not in page]


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    return Disk(tmp_path)


@pytest.mark.guarantee("G510")
class TestDecisions:
    def test_the_events_and_the_answer_are_one_page(self, disk: Disk) -> None:
        async def act(stage: Stage) -> None:
            assert await stage.reply_to("command", "Account.Deposit", {"account": "a", "cents": 5}) == {"cents": 5}
            assert disk.kinds() == [["request"], ["entityEvent", "answer"]]
            assert await stage.reply_to("query", "Account.Look", {"account": "a"}) == {"cents": 5}
            assert await stage.reply_to("query", "Account.Look", {"account": "b"}) == {"cents": 0}

        disk.play(act)
