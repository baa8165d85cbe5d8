"""The fixtures of `tests/loops.py`, `run_virtual` for tests with typed actors, and actors that record or do not end."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from bandstand.core import ActorId, Loop
from tests.actor.conftest import run_virtual
from tests.core.child_groups import Stubborn
from tests.core.support import Seen, StallListener, record
from tests.loops import clock, diary, loop, make_loop

__all__ = (
    "boss",
    "clock",
    "diary",
    "loop",
    "make_loop",
    "notes",
    "run_virtual",
    "seen",
    "stalls",
    "stubborn",
)


@pytest.fixture
def seen() -> list[Any]:
    """An empty list, to be the state of an actor that collects or records its messages."""
    return []


@pytest.fixture
def notes() -> list[Seen]:
    """What `boss` receives."""
    return []


@pytest.fixture
def boss(loop: Loop, notes: list[Seen]) -> ActorId:
    return loop.spawn(record, notes)


@pytest.fixture
def stubborn() -> Iterator[Stubborn]:
    """A coroutine that ignores every cancellation, until the end of the test."""
    stubborn = Stubborn()
    yield stubborn
    stubborn.release.set()


@pytest.fixture
def stalls() -> Iterator[StallListener]:
    """What the watchdog reports."""
    listener = StallListener()
    logger = logging.getLogger("bandstand.core")
    logger.addHandler(listener)
    yield listener
    logger.removeHandler(listener)
