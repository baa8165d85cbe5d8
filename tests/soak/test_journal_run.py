"""A short run over crash images, bits and power cuts. `make soak` does thousands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bandstand.journal.engine import journal_engine
from tests.journal import power_cut
from tests.journal.crash_images import Entry, record
from tests.soak import journal_run

pytestmark = [pytest.mark.slow, pytest.mark.once]


@pytest.fixture(autouse=True)
def same_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a run chooses must not stay."""
    monkeypatch.setattr("bandstand.journal.storage.journal_engine", journal_engine)


@pytest.mark.guarantee("G452", "G453")
def test_a_short_run_finds_nothing() -> None:
    report = journal_run.play(3, images=20, bits=20, rounds=0)
    assert report.failures == []
    assert report.images >= 20 or report.skipped
    assert report.bits == 40


def test_what_was_not_tested_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(power_cut, "SIZE", 0)
    assert journal_run.main(["--images", "0", "--bits", "0", "--rounds", "1"]) == 0
    assert "NOT TESTED: power cuts: cannot make a disk on a loop device" in capsys.readouterr().out


def test_lost_records_are_found(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def record_without_syncs(recorder: Path, folder: Path, seed: int, engine: str) -> list[Entry]:
        return record(recorder, folder, seed, engine, "no-sync")

    monkeypatch.setattr(journal_run, "record", record_without_syncs)
    assert journal_run.main(["--images", "60", "--bits", "0", "--rounds", "0", "--json", "--seed", "5"]) == 1
    shown = capsys.readouterr()
    assert any("was reported as durable" in failure for failure in json.loads(shown.out)["failures"])
    assert "failed; seed 5" in shown.err
