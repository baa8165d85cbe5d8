"""Nodes open the journals that nodes of earlier releases have written, for ever."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from bandstand.bus.dead_letters import ListDeadLetters
from bandstand.bus.durable.check import check_replay
from bandstand.bus.durable.records import KIND_NAMES
from bandstand.bus.reminders.capability import ListReminders
from bandstand.bus.step_capability import ListSteps, ShowStep
from bandstand.journal import JournalReader
from tests.bus.bank import Look
from tests.bus.make_node_release import RELEASES, kinds_in, make
from tests.bus.release_node import BEGAN, CAPABILITIES, Shop
from tests.bus.virtual_node import Stage, hushed, play

pytestmark = [pytest.mark.guarantee("G459", "G464")]

each_release = pytest.mark.parametrize("release", sorted(path.name for path in RELEASES.iterdir()))


@pytest.fixture(autouse=True)
def charged() -> list[str]:
    Shop.charged.clear()
    return Shop.charged


@pytest.fixture
def journal(release: str, tmp_path: Path) -> Path:
    """A copy of the journal of a release."""
    return Path(shutil.copytree(RELEASES / release / "journal", tmp_path / "journal"))


@each_release
def test_a_node_continues_where_the_other_was_killed(journal: Path, charged: list[str]) -> None:
    now_ms = BEGAN + 30_000

    async def act(stage: Stage) -> None:
        client = stage.connect()
        # An answer that is remembered, a command in doubt, and dead letters.
        client.command("Shop.Work", {"number": 1}, name="answered")
        client.command("Shop.Work", {"number": 8, "seconds": 1_000_000}, name="doubtful")
        await stage.settle()
        assert client.reply("answered") == 1
        client.fault("doubtful", "Sys.InDoubt")
        letters = (await stage.bus.ask(ListDeadLetters())).letters
        assert {(letter.id, letter.reason) for letter in letters} == {
            ("doubtful", "inDoubt"),
            ("order", "inDoubt"),
            ("unrouted", "unrouted"),
        }
        # The order has charged the card; whether it was shipped is not known.
        steps = (await stage.bus.ask(ListSteps())).steps
        assert [(step.id, step.state) for step in steps] == [("order/ship", "unknown")]
        shown = await stage.bus.ask(ShowStep("order/charge"))
        assert bytes(shown.result) == b'{"card":"4711"}'
        assert charged == []
        # A snapshot with later events, and events without a snapshot.
        assert (await stage.bus.ask(Look("alice"))).cents == sum(range(1, 8)) + 100
        assert (await stage.bus.ask(Look("bob"))).cents == 100
        reminders = (await stage.bus.ask(ListReminders())).reminders
        assert [reminder.name for reminder in reminders] == ["soon", "yearly"]
        # One scheduled message was cancelled, the other is sent.
        handled = (await stage.stats()).timers_fired
        await stage.wait(60_000)
        assert (await stage.stats()).timers_fired == handled + 1

    with hushed():
        play(act, *CAPABILITIES, journal=journal, wall_clock=lambda: now_ms * 1_000_000)


@each_release
def test_its_records_are_checked(journal: Path) -> None:
    with JournalReader(journal) as reader:
        report = check_replay(reader.pages())
    assert report.disagreements == []
    assert report.compared == report.checkpoints == 1


def test_the_script_makes_what_is_stored(tmp_path: Path) -> None:
    """A node of this version writes all kinds of records, and those that the kept journal has. Otherwise run the script again under a new version."""
    made = make(tmp_path)
    assert made.keys() == set(KIND_NAMES.values())
    newest = shutil.copytree(max(RELEASES.iterdir()) / "journal", tmp_path / "copy")
    assert kinds_in(newest) == made
