"""Lineages in a journal: the causes of a message, and everything that it has caused, on real journals."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus.durable.lineage import Lineage, find_lineage
from bandstand.bus.durable.records import BEGAN, DEAD_ENDED, IS_BEGUN, TIMER_ENDED
from bandstand.journal import JournalReader, Record
from tests.bus.node_journals import (
    NOON,
    answer,
    checkpoint,
    dead,
    delete_before,
    event,
    frame,
    numbers_record,
    request,
    timer,
    write_journal,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def lineage(directory: Path, name: str, limit: int = 1000) -> Lineage | None:
    with JournalReader(directory) as reader:
        return find_lineage(reader, name, limit)


def found(directory: Path, name: str, limit: int = 1000) -> Lineage:
    seen = lineage(directory, name, limit)
    assert seen is not None
    return seen


@pytest.mark.guarantee("G504")
class TestLineage:
    @settings(max_examples=20)
    @given(causes=st.lists(st.integers(0, 11), max_size=12), size=st.integers(1, 5), asked=st.integers(0, 11))
    def test_causes_and_effects_are_those_of_any_tree(
        self, causes: list[int], size: int, asked: int, tmp_path_factory: pytest.TempPathFactory
    ) -> None:
        # Message n has an earlier one as its cause, or none.
        above = {n: cause for n, cause in enumerate(causes) if cause < n}
        records = [
            event(frame(f"m{n}", "event", cause=f"m{above[n]}" if n in above else None))
            for n in range(len(causes))
        ]
        directory = tmp_path_factory.mktemp("tree") / "journal"
        write_journal(directory, [records[n : n + size] for n in range(0, len(records), size)])
        seen = lineage(directory, f"m{asked}")
        if asked >= len(causes):
            assert seen is None
            return
        assert seen is not None
        ancestors: list[int] = []
        while (cause := above.get((ancestors or [asked])[-1])) is not None:
            ancestors.append(cause)
        effects = {asked}
        for n in range(len(causes)):
            if above.get(n) in effects:
                effects.add(n)
        assert [each.id for each in seen.ancestors] == [f"m{n}" for n in reversed(ancestors)]
        assert [each.id for each in seen.effects] == [f"m{n}" for n in sorted(effects - {asked})]
        assert (seen.related, seen.missing, seen.complete) == ([], None, True)

    def test_a_message_has_all_records_that_are_about_it(self, directory: Path) -> None:
        late = frame("late", cause="root")
        write_journal(
            directory,
            [
                [request(1, frame("root")), numbers_record(BEGAN, [9, 1])],
                [timer("t-1", late), answer(1, frame("done", "reply", cause="root"))],
                [Record(TIMER_ENDED, b"t-1"), request(2, late, IS_BEGUN)],
                checkpoint(request(2, late)),
                [dead(late), Record(DEAD_ENDED, b"late")],
            ],
        )
        seen = found(directory, "root")
        assert [(each.offset, each.kind) for each in seen.message.records] == [
            ("1-1", "request"),
            ("1-2", "began"),
        ]
        (scheduled, done) = seen.effects
        assert (done.id, done.kind, done.causation, done.at) == ("done", "reply", "root", NOON + 1000)
        assert [(each.offset, each.kind) for each in scheduled.records] == [
            ("2-1", "timer"),
            ("3-1", "timerEnded"),
            ("3-2", "request"),
            ("5-1", "dead"),
            ("5-2", "deadEnded"),
        ]

    def test_a_message_is_found_from_its_first_record_on(self, directory: Path) -> None:
        """Its dead letter is written later, and its effects are between the two."""
        root = frame("root")
        effect = event(frame("effect", "event", cause="root"))
        write_journal(directory, [[request(1, root)], [effect], [dead(root)], checkpoint(request(1, root))])
        seen = found(directory, "root")
        assert [each.id for each in seen.effects] == ["effect"]
        assert [each.kind for each in seen.message.records] == ["request", "dead"]

    def test_the_same_correlation_is_shown_from_the_first_cause_on(self, directory: Path) -> None:
        def message(name: str, cause: str | None = None, correlation: str | None = "task") -> Record:
            return event(frame(name, "event", cause=cause, correlation=correlation))

        write_journal(
            directory,
            [
                [message("before"), message("root")],
                [message("sibling", "root"), message("other", correlation="another")],
                [message("asked", "root"), message("effect", "asked", None)],
                [message("alone")],
            ],
        )
        seen = found(directory, "asked")
        assert [each.id for each in seen.ancestors] == ["root"]
        assert [each.id for each in seen.effects] == ["effect"]
        assert [each.id for each in seen.related] == ["sibling", "alone"]

    def test_a_cause_that_the_journal_does_not_have_is_named(self, directory: Path) -> None:
        write_journal(
            directory, [[event(frame("a", "event", cause="query"))], [event(frame("b", "event", cause="a"))]]
        )
        seen = found(directory, "b")
        assert ([each.id for each in seen.ancestors], seen.missing) == (["a"], "query")
        delete_before(directory, 2)
        assert found(directory, "b").missing == "a"

    def test_a_copy_is_taken_if_the_record_itself_was_deleted(self, directory: Path) -> None:
        root = frame("root", cause="cause")
        write_journal(directory, [[request(1, root)], checkpoint(request(1, root))])
        delete_before(directory, 2)
        seen = found(directory, "root")
        assert [(each.offset, each.kind) for each in seen.message.records] == [("2-2", "request")]

    def test_of_two_messages_with_one_id_the_last_is_shown(self, directory: Path) -> None:
        write_journal(
            directory,
            [
                [request(1, frame("a", type="Old.One")), event(frame("old", "event", cause="a"))],
                [request(2, frame("a", type="New.One")), event(frame("new", "event", cause="a"))],
            ],
        )
        seen = found(directory, "a")
        assert (seen.message.type, [each.id for each in seen.effects]) == ("New.One", ["new"])

    def test_a_cycle_ends(self, directory: Path) -> None:
        """Clients choose ids and causes."""
        write_journal(
            directory,
            [
                [event(frame("a", "event", cause="b")), event(frame("b", "event", cause="a"))],
                [event(frame("a", "event", cause="b")), event(frame("own", "event", cause="own"))],
            ],
        )
        assert [each.id for each in found(directory, "a").ancestors] == ["b"]
        assert found(directory, "own").ancestors == []

    def test_a_limit_makes_it_incomplete(self, directory: Path) -> None:
        effects = [event(frame(f"e{n}", "event", cause="root")) for n in range(5)]
        write_journal(directory, [[request(1, frame("root"))], effects])
        assert found(directory, "root", 5).complete
        seen = found(directory, "root", 4)
        assert ([each.id for each in seen.effects], seen.complete) == (["e0", "e1", "e2", "e3"], False)
