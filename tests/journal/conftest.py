"""Run tests of the journal on each copy of SQLite."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from bandstand.journal import storage
from bandstand.journal.engine import Engine, apsw_engine, python_engine


@pytest.fixture(scope="module", params=["Python", "apsw"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The SQLite that journals of this process use."""
    engine = python_engine() if request.param == "Python" else apsw_engine()
    if engine is None:
        pytest.skip("apsw is not installed")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(storage, "journal_engine", lambda: engine)
        yield engine


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: images are written thousands of times, and nobody cuts the power here."""
    with TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else tmp_path) as folder:
        yield Path(folder)
