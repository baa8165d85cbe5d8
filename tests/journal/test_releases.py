"""Journals that were written by earlier releases are read, and continued, for ever."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import bandstand
from bandstand.journal import Record
from bandstand.journal.storage import FORMAT
from tests.journal.journals import read_pages, write_pages
from tests.journal.make_release import RELEASES, describe, make

pytestmark = [pytest.mark.guarantee("G459"), pytest.mark.usefixtures("engine")]

each_release = pytest.mark.parametrize("release", sorted(path.name for path in RELEASES.iterdir()))
each_state = pytest.mark.parametrize("state", ["closed", "killed"])


def described(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "pages.ndjson").read_text("utf-8").splitlines()]


@each_release
@each_state
def test_it_is_read_and_continued(release: str, state: str, tmp_path: Path) -> None:
    directory = tmp_path / "journal"
    shutil.copytree(RELEASES / release / state, directory)
    expected = described(RELEASES / release)
    assert [describe(page) for page in read_pages(directory)] == expected
    write_pages(directory, [[Record(1, b"now")]])
    *before, last = read_pages(directory)
    assert [describe(page) for page in before] == expected
    assert (last.number, last.records) == (expected[-1]["number"] + 1, (Record(1, b"now"),))


def test_the_present_format_has_a_journal() -> None:
    assert any(path.name.endswith(f"-format-{FORMAT}") for path in RELEASES.iterdir())


def test_the_script_makes_what_is_stored(tmp_path: Path) -> None:
    """Otherwise a journal of this release would differ from the one that is kept: run the script again under a new version."""
    stored = RELEASES / f"{bandstand.__version__}-format-{FORMAT}"
    if not stored.exists():
        pytest.skip("the journals of this version are those of an earlier one")
    make(tmp_path)
    assert [page["records"] for page in described(tmp_path)] == [
        page["records"] for page in described(stored)
    ]
