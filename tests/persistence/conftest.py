"""Fixtures for persistent actors: a folder, and a runner. They run in real time, because the thread of a journal does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests.core.support import HostFactory

T = TypeVar("T")
Run = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.fixture
def run(loop_factory: HostFactory) -> Run:
    """Run a coroutine on the event loop of the lane."""

    def run_coroutine(body: Coroutine[Any, Any, T]) -> T:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            return runner.run(body)

    return run_coroutine
