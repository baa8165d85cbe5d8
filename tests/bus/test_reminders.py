"""Reminders: what sends a command when, and over which changes of the clock and of the node."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import pytest

from bandstand.bus import Capability, Command, Query
from bandstand.bus.dead_letters import ListDeadLetters
from bandstand.bus.durable.records import DATA, REQUEST, read_json, read_line, read_request
from bandstand.bus.durable.records import DataEntry as Data
from bandstand.bus.reminders import cron
from bandstand.bus.reminders.book import OWNER, ReminderBook, describe_record
from bandstand.bus.reminders.capability import ListReminders
from bandstand.bus.reminders.cron import parse_cron
from bandstand.errors import BootError, InvalidArgumentError, MailboxFullError
from bandstand.journal import JournalReader
from bandstand.journal.storage import Storage
from bandstand.testing import VirtualClock
from tests.bus.virtual_node import ScriptedLine, Stage, hushed, play

Act = Callable[[Stage], Coroutine[Any, Any, None]]

NOON = 1_767_960_000_000
"""9 January 2026, 12:00 UTC, in milliseconds since 1970."""
S, MINUTE, HOUR = 1000, 60_000, 3_600_000


class Note(Command[None], type="Diary.Note"):
    """Note a text."""

    text: str = ""
    then: str = ""


class NoteAgain(Command[None], type="Diary.NoteAgain", retry_safe=True):
    """The same, may be executed again."""

    text: str = ""


class Ask(Command[None], type="Diary.Ask"):
    """Set a reminder as the handler of a command."""

    name: str
    every: float
    then: str = ""


class Forget(Command[None], type="Diary.Forget"):
    """Cancel it."""

    name: str


class Look(Query[int], type="Diary.Look"):
    """How many notes there are."""


class Diary(Capability):
    """Notes the ids of the commands that reminders send."""

    outbound = Note
    mailbox = 16

    notes: ClassVar[list[str]] = []
    """What it was sent, by all nodes of a test."""
    begins: ClassVar[list[Callable[[Diary], object]]] = []
    """Called at each start."""

    def on_start(self) -> None:
        for begin in self.begins:
            begin(self)

    async def note(self, msg: Note) -> None:
        assert self.bus.message is not None
        self.notes.append(self.bus.message.id)
        if msg.then == "wait":
            await asyncio.sleep(25)
        elif msg.then == "raise":
            raise ValueError("by wish")

    def note_again(self, msg: NoteAgain) -> None:
        assert self.bus.message is not None
        self.notes.append(self.bus.message.id)

    def ask(self, msg: Ask) -> None:
        self.bus.remind(msg.name, Note("asked"), every=msg.every)
        if msg.then == "raise":
            raise ValueError("by wish")

    def forget(self, msg: Forget) -> None:
        self.bus.forget(msg.name)

    def look(self, msg: Look) -> int:
        return len(self.notes)


class World:
    """A journal, a wall clock, and the nodes that use them."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.journal = directory / "journal"
        self._clock = VirtualClock()
        self._start_ms = NOON - self._clock.now_ns() // 1_000_000
        self._copies = 0

    @property
    def now_ms(self) -> int:
        return self._start_ms + self._clock.now_ns() // 1_000_000

    def set_clock(self, by_ms: int) -> None:
        """Set the wall clock forward or back."""
        self._start_ms += by_ms

    def copy(self) -> Path:
        """Keep the files of the journal as they are now: what a `kill -9` would leave."""
        self._copies += 1
        shutil.copytree(self.journal, self._directory / str(self._copies))
        return self._directory / str(self._copies)

    def use(self, copy: Path) -> None:
        """Go on with a copy."""
        shutil.rmtree(self.journal)
        shutil.copytree(copy, self.journal)

    def play(self, act: Act, *capabilities: Any, is_crash: bool = False, **fields: Any) -> None:
        """Run a node until `act` is over; with `is_crash`, go on with what the journal was then."""
        now_ms = self.now_ms
        self._clock = VirtualClock()
        self._start_ms = now_ms - self._clock.now_ns() // 1_000_000
        copies: list[Path] = []

        async def run(stage: Stage) -> None:
            await act(stage)
            if is_crash:
                copies.append(self.copy())

        with hushed():
            play(
                run,
                *(capabilities or (Diary,)),
                journal=self.journal,
                clock=self._clock,
                wall_clock=lambda: self.now_ms * 1_000_000,
                **fields,
            )
        if copies:
            self.use(copies[0])

    def requests(self) -> list[str]:
        """The ids of the commands of reminders in the journal, without copies in checkpoints."""
        found: dict[tuple[str, int], None] = {}
        with JournalReader(self.journal) as reader:
            for page in reader.pages():
                for record in page.records:
                    if record.kind == REQUEST:
                        request = read_request(record.data)
                        name = read_line(REQUEST, request.line).metadata.id
                        if "/" in name:
                            found[name, request.number] = None
        return [name for name, _ in found]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture(autouse=True)
def notes() -> Iterator[list[str]]:
    Diary.notes.clear()
    yield Diary.notes
    Diary.notes.clear()
    Diary.begins.clear()


def remind(client: ScriptedLine | Stage, name: str, command: str = "Diary.Note", **fields: Any) -> str:
    return client.command("Reminder.Set", {"name": name, "command": command, **fields})


async def reminders(stage: Stage) -> list[Any]:
    found: list[Any] = (await stage.bus.ask(ListReminders())).reminders
    return found


@pytest.mark.guarantee("G525")
class TestTicks:
    def test_once_after_a_time_and_at_a_moment(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            assert stage.is_answered(remind(stage, "a", after=10 * S)) is False
            remind(stage, "b", after="2min", data={"text": "later"})
            remind(stage, "c", at=datetime.fromtimestamp((world.now_ms + 5 * S) / 1000, UTC).isoformat())
            await stage.wait(4 * S)
            assert notes == []
            await stage.wait(2 * S)
            assert notes == ["node/c/1"]
            await stage.wait(5 * S)
            assert notes == ["node/c/1", "node/a/1"]
            await stage.wait(2 * MINUTE)
            assert notes == ["node/c/1", "node/a/1", "node/b/1"]
            assert await reminders(stage) == []

        world.play(act)

    def test_every_and_cron(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "every", every="20s")
            remind(stage, "cron", cron="*/2 13 9 JAN *", timezone="Europe/Berlin")
            await stage.settle()
            await stage.wait(5 * MINUTE + 1)
            assert [each for each in notes if "cron" in each] == ["node/cron/1", "node/cron/2"]
            assert [each for each in notes if "every" in each] == [
                f"node/every/{number}" for number in range(1, 16)
            ]

        # 12:00:03 UTC is 13:00:03 in Berlin.
        world.set_clock(3 * S)
        world.play(act)

    def test_every_counts_from_a_moment(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            midnight = datetime(2020, 1, 1, tzinfo=UTC)
            asked = remind(stage, "a", every=90 * MINUTE, at=midnight.isoformat())
            await stage.settle()
            due = datetime.fromisoformat(stage.reply(asked)["due"])
            assert (due - midnight) % timedelta(minutes=90) == timedelta()
            assert timedelta() < due - datetime.fromtimestamp(NOON / 1000, UTC) <= timedelta(minutes=90)

        world.play(act)

    def test_the_command_has_the_cause_and_the_correlation_of_what_has_set_it(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            seen: list[Any] = []
            stage.node.tap(lambda frame, _to: seen.append(frame) if frame.type == "Diary.Note" else None)
            asked = stage.command(
                "Reminder.Set", {"name": "a", "command": "Diary.Note", "after": 100}, correlation="work"
            )
            await stage.wait(200)
            metadata = seen[0].metadata
            assert (metadata.causation, metadata.correlation) == (asked, "work")
            assert metadata.timestamp in {world.now_ms - 100, world.now_ms - 99}

        world.play(act)

    def test_a_reminder_of_a_handler_belongs_to_its_answer(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            failed = stage.command("Diary.Ask", {"name": "a", "every": 10, "then": "raise"})
            await stage.wait(5 * S)
            stage.fault(failed, "Sys.ActorCrash")
            assert await reminders(stage) == []
            asked = stage.command("Diary.Ask", {"name": "a", "every": 10})
            await stage.settle()
            assert stage.reply(asked) == {}
            assert [(each.owner, each.name) for each in await reminders(stage)] == [("Diary", "a")]
            await stage.wait(21 * S)
            assert notes == ["Diary/a/1", "Diary/a/2"]
            stage.command("Diary.Forget", {"name": "a"})
            await stage.wait(HOUR)
            assert notes == ["Diary/a/1", "Diary/a/2"]

        world.play(act)

    def test_a_program_has_reminders_of_its_own(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            stage.bus.remind("a", Note(), after=1)
            stage.bus.remind("b", Note(), after=timedelta(seconds=2), missed="none")
            stage.bus.forget("b")
            await stage.wait(5 * S)
            assert notes == ["node/a/1"]

        world.play(act)


@pytest.mark.guarantee("G526")
class TestChanges:
    def test_the_same_definition_changes_nothing_and_another_replaces(
        self, world: World, notes: list[str]
    ) -> None:
        async def act(stage: Stage) -> None:
            first = remind(stage, "a", every="20s", data={"text": "x", "then": ""})
            await stage.wait(15 * S)
            again = remind(stage, "a", every=20 * S, missed="one", data={"then": "", "text": "x"})
            await stage.settle()
            assert stage.reply(again) == stage.reply(first)
            await stage.wait(6 * S)
            assert notes == ["node/a/1"]
            remind(stage, "a", every="30s")
            await stage.wait(29 * S)
            assert notes == ["node/a/1"]
            await stage.wait(2 * S)
            # The numbers go on.
            assert notes == ["node/a/1", "node/a/2"]

        world.play(act)

    def test_a_capability_sets_its_reminders_at_every_start(self, world: World, notes: list[str]) -> None:
        Diary.begins.append(lambda diary: diary.bus.remind("daily", Note(), every=100))

        async def act(stage: Stage) -> None:
            await stage.wait(60 * S)

        world.play(act)
        world.play(act)
        assert notes == ["Diary/daily/1"]
        world.play(act)
        world.play(act)
        assert notes == ["Diary/daily/1", "Diary/daily/2"]

    def test_cancel(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s")
            await stage.wait(11 * S)
            cancelled = stage.command("Reminder.Cancel", {"name": "a"})
            await stage.settle()
            assert stage.reply(cancelled) == {"cancelled": True}
            again = stage.command("Reminder.Cancel", {"name": "a"})
            other = stage.command("Reminder.Cancel", {"name": "a", "owner": "Diary"})
            await stage.wait(MINUTE)
            assert stage.reply(again) == stage.reply(other) == {"cancelled": False}
            # A new one with this name has ids of its own.
            remind(stage, "a", after="1s")
            await stage.wait(2 * S)
            assert notes == ["node/a/1", "node/a/2"]

        world.play(act)

    def test_after_the_answer_to_cancel_nothing_is_sent(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s")
            await stage.settle()
            # Due at the moment in which it is cancelled.
            await asyncio.sleep(10 - 1e-6)
            stage.command("Reminder.Cancel", {"name": "a"})
            await stage.wait(MINUTE)
            assert len(notes) <= 1
            assert await reminders(stage) == []

        world.play(act)

    def test_pages(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            for number in range(25):
                remind(stage, f"{number:02}", every="1d", owner="ab"[number % 2])
                await stage.settle()
            names: list[str] = []
            after, count = None, 25
            while True:
                page = await stage.bus.ask(ListReminders(owner="a", limit=5, after=after))
                names += [each.name for each in page.reminders]
                assert page.count == count
                if page.next is None:
                    break
                after = page.next
                # A change between two pages moves nothing.
                remind(stage, f"{count - 25:02}x", every="1d", owner="a")
                count += 1
                await stage.settle()
            assert names == [f"{number:02}" for number in range(0, 25, 2)]
            page = await stage.bus.ask(ListReminders(limit=1000))
            assert len(page.reminders) == count
            assert page.next is None

        world.play(act)

    def test_the_list_says_what_a_reminder_does(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", cron="0 3 * * *", timezone="Europe/Berlin", data={"text": "x"}, missed="all")
            remind(stage, "b", every="10s", data={"then": "wait"})
            await stage.wait(11 * S)
            a, b = (await stage.client.reply_to("query", "Reminder.List"))["reminders"]
            assert a == {
                "owner": "node",
                "name": "a",
                "command": "Diary.Note",
                "data": {"text": "x"},
                "due": "2026-01-10T02:00:00Z",
                "missed": "all",
                "sent": 0,
                "cron": "0 3 * * *",
                "timezone": "Europe/Berlin",
            }
            assert (b["every"], b["sent"], b["running"]) == (10_000, 1, True)

        world.play(act)


@pytest.mark.guarantee("G528")
class TestMissed:
    @pytest.mark.parametrize(
        ("missed", "down", "expected"),
        [
            ("one", 65 * S, ["node/a/1"]),
            ("all", 65 * S, [f"node/a/{number}" for number in range(1, 7)]),
            ("none", 65 * S, ["node/a/1"]),
            # The last tick was six seconds before the start of the node.
            ("none", 66 * S, ["node/a/1"]),
        ],
    )
    @pytest.mark.parametrize("is_crash", [True, False])
    def test_ticks_while_the_node_was_down(
        self, world: World, notes: list[str], missed: str, down: int, expected: list[str], is_crash: bool
    ) -> None:
        async def before(stage: Stage) -> None:
            remind(stage, "a", every="10s", missed=missed)
            await stage.settle()

        async def after(stage: Stage) -> None:
            await stage.wait(1 * S)
            assert notes == expected
            await stage.wait(5 * S)
            assert len(notes) == len(expected) + 1

        world.play(before, is_crash=is_crash)
        world.set_clock(down)
        world.play(after)

    @pytest.mark.parametrize(("missed", "count"), [("one", 1), ("all", 1), ("none", 0)])
    def test_once(self, world: World, notes: list[str], missed: str, count: int) -> None:
        async def before(stage: Stage) -> None:
            remind(stage, "a", after="10s", missed=missed)
            await stage.settle()

        async def after(stage: Stage) -> None:
            await stage.wait(1 * S)
            assert len(notes) == count
            assert await reminders(stage) == []

        world.play(before)
        world.set_clock(HOUR)
        world.play(after)
        world.play(after)

    @pytest.mark.parametrize(
        ("missed", "expected"),
        [
            # It takes 25 s; the ticks are at 10, 20, 30, ... s.
            ("one", [10, 35, 60]),
            ("all", [10, 35, 60]),
            ("none", [10, 35, 60]),
        ],
    )
    def test_a_command_that_takes_longer_than_the_period_is_not_sent_twice_at_a_time(
        self, world: World, missed: str, expected: list[int]
    ) -> None:
        async def act(stage: Stage) -> None:
            start = world.now_ms
            sent: list[int] = []
            stage.node.tap(
                lambda frame, _to: (
                    sent.append((world.now_ms - start) // S)
                    if (frame.kind, frame.type) == ("command", "Diary.Note")
                    else None
                )
            )
            remind(stage, "a", every="10s", missed=missed, data={"then": "wait"})
            await stage.wait(79 * S)
            assert sent == expected
            (found,) = await reminders(stage)
            # Of `all`, ticks wait.
            assert (found.due.timestamp() * S - start) // S == (40 if missed == "all" else 70)

        world.play(act, Diary)


@pytest.mark.guarantee("G529")
class TestClock:
    @pytest.mark.parametrize("jump", [HOUR, 1 * S, 37 * S])
    def test_forward(self, world: World, notes: list[str], jump: int) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s")
            remind(stage, "far", after=jump + 20 * S)
            await stage.wait(1 * S)
            world.set_clock(jump)
            # A jump is noticed within five seconds.
            await stage.wait(6 * S)
            assert len(notes) == (0 if jump == S else 1)
            await stage.wait(30 * S)
            assert notes.count("node/far/1") == 1
            assert len(set(notes)) == len(notes)

        world.play(act)

    @pytest.mark.parametrize("jump", [HOUR, 1 * S, 15 * S])
    def test_back_over_a_tick(self, world: World, notes: list[str], jump: int) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s")
            await stage.wait(11 * S)
            assert notes == ["node/a/1"]
            world.set_clock(-jump)
            # The tick at 10 s comes again and is not sent again; the one at 20 s is.
            await stage.wait(8 * S + jump)
            assert notes == ["node/a/1"]
            await stage.wait(2 * S)
            assert notes == ["node/a/1", "node/a/2"]

        world.play(act)

    def test_back_while_the_node_is_down(self, world: World, notes: list[str]) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s", missed="all")
            await stage.wait(11 * S)

        world.play(act)
        world.set_clock(-30 * S)
        for _ in range(3):
            world.play(act)
        assert notes == ["node/a/1"]
        world.play(act)
        assert notes == ["node/a/1", "node/a/2"]


@pytest.mark.guarantee("G530")
class TestCommands:
    def test_a_failed_one_is_a_dead_letter_and_the_next_one_is_sent(
        self, world: World, notes: list[str]
    ) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", every="10s", data={"then": "raise"})
            await stage.wait(21 * S)
            assert notes == ["node/a/1", "node/a/2"]
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason) for each in letters] == [
                ("node/a/2", "crashed"),
                ("node/a/1", "crashed"),
            ]

        world.play(act)

    def test_one_that_no_capability_handles_any_more_is_a_dead_letter(self, world: World) -> None:
        async def before(stage: Stage) -> None:
            remind(stage, "a", after="10s")
            await stage.settle()

        async def after(stage: Stage) -> None:
            await stage.wait(11 * S)
            (letter,) = (await stage.bus.ask(ListDeadLetters())).letters
            assert (letter.id, letter.reason) == ("node/a/1", "unrouted")

        world.play(before)
        world.play(after, Other)

    @pytest.mark.parametrize("missed", ["one", "all"])
    def test_the_open_one_of_a_node_that_died_counts(
        self, world: World, notes: list[str], missed: str
    ) -> None:
        async def before(stage: Stage) -> None:
            remind(stage, "a", "Diary.NoteAgain", every="10s", missed=missed)
            remind(stage, "slow", every="11s", data={"then": "wait"})
            await stage.wait(12 * S)
            assert notes == ["node/a/1", "node/slow/1"]

        async def after(stage: Stage) -> None:
            # It was begun, and must not be executed again.
            letters = (await stage.bus.ask(ListDeadLetters())).letters
            assert [(each.id, each.reason) for each in letters] == [("node/slow/1", "inDoubt")]
            await stage.wait(11 * S)
            assert notes == ["node/a/1", "node/slow/1", "node/a/2", "node/slow/2"]

        world.play(before, is_crash=True)
        world.play(after)

    @pytest.mark.slow
    def test_many_at_once_do_not_flood_the_mailbox(self, world: World, notes: list[str]) -> None:
        count = 3000
        at = datetime.fromtimestamp(NOON / 1000 + 3600, UTC)

        async def act(stage: Stage) -> None:
            for number in range(count):
                stage.bus.remind(f"{number}", Note(), at=at)
            await stage.wait(2 * HOUR)
            assert len(notes) == len(set(notes)) == count
            assert (await stage.bus.ask(ListDeadLetters())).letters == []

        world.play(act)


class Other(Capability):
    """Handles something else."""

    def look(self, msg: Look) -> int:
        return 0


@pytest.mark.guarantee("G531")
class TestCrashes:
    @pytest.mark.slow
    def test_every_tick_is_sent_once_whatever_page_is_the_last_one(
        self, world: World, notes: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        copies: list[Path] = []
        commit = Storage.commit

        def commit_and_copy(self: Storage, at: int, count: int, body: bytes) -> int:
            copies.append(world.copy())
            return commit(self, at, count, body)

        async def act(stage: Stage) -> None:
            remind(stage, "again", "Diary.NoteAgain", every="10s", missed="all")
            remind(stage, "once", after="15s")
            await stage.settle()
            with monkeypatch.context() as context:
                context.setattr(Storage, "commit", commit_and_copy)
                await stage.wait(25 * S)
            copies.append(world.copy())

        world.play(act)
        assert len(copies) > 6
        start = world.now_ms

        async def rest(stage: Stage) -> None:
            await stage.wait(11 * S)

        for copy in copies:
            world.set_clock(start - world.now_ms)
            world.use(copy)
            world.play(rest)
            requests = world.requests()
            expected = {"node/again/1", "node/again/2", "node/again/3"}
            assert {each for each in requests if "again" in each} == expected
            assert len(requests) == len(set(requests)) == 4
            # Twice is once.
            world.play(rest)
            assert world.requests()[:4] == requests

    @pytest.mark.slow
    def test_a_start_from_a_checkpoint_finds_the_same(
        self, world: World, notes: list[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def before(stage: Stage) -> None:
            remind(stage, "cron", cron="*/5 * * * *", timezone="Europe/Berlin", missed="all")
            remind(stage, "a", every="10s", data={"text": "é"})
            remind(stage, "ended", after="1s")
            await stage.wait(12 * S)
            listed.extend(await reminders(stage))
            # More than a checkpoint's distance.
            for number in range(70):
                stage.connect().event("Diary.Noise", {"text": "x" * 100_000, "number": number})
                await stage.settle()

        async def after(stage: Stage) -> None:
            found = await reminders(stage)
            for each in (*found, *listed):
                each.data = bytes(each.data)
            assert found == listed
            again = stage.command(
                "Reminder.Set", {"name": "ended", "command": "Diary.Note", "after": "1s"}, name="new"
            )
            await stage.wait(2 * S)
            assert stage.reply(again)["name"] == "ended"
            assert notes[-1] == "node/ended/2"

        listed: list[Any] = []
        world.play(before, is_crash=True)
        with JournalReader(world.journal) as reader:
            first = next(page.number for page in reader.pages() if page.records[0].kind == 11)
        assert first > 3
        world.play(after)

    def test_a_time_zone_that_this_machine_does_not_know_any_more_is_an_error_of_the_start(
        self, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def act(stage: Stage) -> None:
            remind(stage, "a", cron="0 3 * * *", timezone="Europe/Berlin")
            await stage.settle()

        world.play(act)
        parse_cron.cache_clear()
        ZoneInfo.clear_cache()
        with monkeypatch.context() as context:
            context.setattr(cron, "ZoneInfo", _no_zone)
            with pytest.raises(BootError, match="reminder a of node cannot be continued: timezone is"):
                world.play(act)
        # Nothing is lost.
        world.play(act)


def _no_zone(name: str) -> ZoneInfo:
    raise ZoneInfoNotFoundError(name)


@pytest.mark.guarantee("G532")
class TestRefusals:
    def test_without_a_journal(self) -> None:
        async def act(stage: Stage) -> None:
            fault = await stage.client.fault_of(
                "Sys.Refused", "command", "Reminder.Set", {"name": "a", "command": "Diary.Note", "after": 1}
            )
            assert "start the node with `bandstand serve --journal DIR`" in fault.message
            await stage.client.fault_of("Sys.Refused", "command", "Reminder.Cancel", {"name": "a"})
            with pytest.raises(InvalidArgumentError, match="no journal"):
                stage.bus.remind("a", Note(), after=1)
            with pytest.raises(InvalidArgumentError, match="no journal"):
                stage.bus.forget("a")
            assert await reminders(stage) == []

        play(act, Diary)

    @pytest.mark.parametrize(
        ("fields", "fault", "text"),
        [
            ({}, "Sys.Refused", "no time is given"),
            ({"after": 1, "every": 5000}, "Sys.Refused", "after and every are given"),
            ({"cron": "* * * * *", "at": "2027-01-01T00:00:00Z"}, "Sys.Refused", "at and cron are given"),
            ({"at": "2026-01-09T11:59:59Z"}, "Sys.Refused", "which has passed"),
            ({"at": "2226-01-09T11:59:59Z"}, "Sys.Refused", "in the next hundred years"),
            ({"at": "2026-01-09T12:59:59"}, "Sys.SchemaError", "$.data.at"),
            ({"at": "tomorrow"}, "Sys.SchemaError", "$.data.at"),
            ({"after": -1}, "Sys.SchemaError", "$.data.after"),
            ({"after": 10**30}, "Sys.Refused", "a hundred years"),
            ({"after": 10**17}, "Sys.Refused", "a hundred years"),
            ({"after": "5"}, "Sys.SchemaError", "$.data.after"),
            ({"after": "999999999999999d"}, "Sys.Refused", "a hundred years"),
            ({"every": 0}, "Sys.Refused", "pass from 1000, a second"),
            ({"every": 999}, "Sys.Refused", "pass from 1000, a second"),
            ({"every": "-5s"}, "Sys.SchemaError", "$.data.every"),
            ({"cron": "61 * * * *"}, "Sys.Refused", "'61' is not valid as minute"),
            ({"cron": "0 0 31 2 *"}, "Sys.Refused", "it never matches"),
            ({"cron": "* * * * *", "timezone": "Mars/Base"}, "Sys.Refused", "knows no such time zone"),
            ({"after": 1, "timezone": "UTC"}, "Sys.Refused", "without cron"),
            ({"after": 1, "missed": "some"}, "Sys.SchemaError", "$.data.missed"),
            ({"after": 1, "name": ""}, "Sys.SchemaError", "$.data.name"),
            ({"after": 1, "name": "a b"}, "Sys.SchemaError", "$.data.name"),
            ({"after": 1, "name": "x" * 101}, "Sys.SchemaError", "$.data.name"),
            ({"after": 1, "owner": "a/b"}, "Sys.SchemaError", "$.data.owner"),
            ({"after": 1, "command": "Diary.None"}, "Sys.RoutingError", "$.data.command"),
            ({"after": 1, "command": "Diary.Look"}, "Sys.RoutingError", "$.data.command"),
            ({"after": 1, "data": {"text": 5}}, "Sys.SchemaError", "$.data.data.text"),
            ({"after": 1, "command": "Syscall.Subscribe", "data": {"types": ["*"]}}, "Sys.Refused", "exactly once"),
            ({"after": 1, "data": {"text": "x" * 70_000}}, "Sys.Refused", "a reminder may have 65536"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_set(self, world: World, fields: dict[str, Any], fault: str, text: str) -> None:
        async def act(stage: Stage) -> None:
            asked = stage.command("Reminder.Set", {"name": "a", "command": "Diary.Note", **fields})
            await stage.settle()
            found = stage.fault(asked, fault)
            assert text in f"{found.message} {found.path}"
            assert await reminders(stage) == []
            assert (await stage.health("Reminder")).restarts == 0

        world.play(act)

    def test_the_same_in_a_program(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            bus = stage.bus
            wrong: list[tuple[type[Exception], str, Callable[[], object]]] = [
                (InvalidArgumentError, "name of the reminder", lambda: bus.remind("a b", Note(), after=1)),
                (InvalidArgumentError, "name of the reminder", lambda: bus.remind("\ud800", Note(), after=1)),
                (InvalidArgumentError, "name of the reminder", lambda: bus.remind(None, Note(), after=1)),
                (InvalidArgumentError, "missed is", lambda: bus.remind("a", Note(), after=1, missed="no")),
                (InvalidArgumentError, "time zone", lambda: bus.remind("a", Note(), at=datetime(2030, 1, 1))),  # noqa: DTZ001
                (InvalidArgumentError, "after is", lambda: bus.remind("a", Note(), after=-1)),
                (InvalidArgumentError, "every is", lambda: bus.remind("a", Note(), every=0.5)),
                (InvalidArgumentError, "no Command", lambda: bus.remind("a", Look(), after=1)),
                (InvalidArgumentError, "no capability handles", lambda: bus.remind("a", Missing(), after=1)),
            ]
            for kind, text, call in wrong:
                with pytest.raises(kind, match=text):
                    call()
            assert await reminders(stage) == []

        world.play(act)

    def test_the_limit(self, world: World) -> None:
        async def act(stage: Stage) -> None:
            for number in range(3):
                stage.bus.remind(f"{number}", Note(), every=100)
            with pytest.raises(MailboxFullError, match="max_reminders"):
                stage.bus.remind("4", Note(), every=100)
            await stage.settle()
            await stage.client.fault_of(
                "Sys.Overloaded",
                "command",
                "Reminder.Set",
                {"name": "x", "command": "Diary.Note", "after": 1},
            )
            # One that is there can be replaced, and there is room when one has gone.
            stage.bus.remind("1", Note(), every=200)
            stage.bus.forget("0")
            await stage.settle()
            stage.bus.remind("4", Note(), every=100)
            await stage.settle()
            assert [each.name for each in await reminders(stage)] == ["1", "2", "4"]

        world.play(act, max_reminders=3)


class Missing(Command[None], type="Nobody.Handles"):
    """Nothing handles it."""


def test_records_are_readable(world: World) -> None:
    async def act(stage: Stage) -> None:
        remind(stage, "a", cron="0 3 * * *", timezone="Europe/Berlin", data={"text": "x"})
        remind(stage, "b", every="10s", missed="none")
        remind(stage, "c", after="5s")
        await stage.wait(6 * S)
        stage.command("Reminder.Cancel", {"name": "a"})
        await stage.wait(5 * S)

    world.play(act)
    texts: list[str] = []
    with JournalReader(world.journal) as reader:
        for page in reader.pages():
            for record in page.records:
                if record.kind == DATA:
                    entry = read_json(DATA, record.data, Data)
                    assert entry.owner == OWNER
                    texts.append(describe_record(entry.data, lambda at: f"+{(at - NOON) // S}"))
    assert texts == [
        """set node/a cron '0 3 * * *' Europe/Berlin, next +50400  Diary.Note {"text": "x"}""",
        "set node/b every 10 s, next +10  Diary.Note {}",
        "set node/c, next +5  Diary.Note {}",
        "due node/c/1 +5, ended",
        "cancelled node/a",
        "due node/b/1 +10, next +20",
    ]
    book = ReminderBook()
    assert list(book.entries()) == []
