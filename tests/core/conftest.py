"""The fixtures of `tests/loops.py`, `run_virtual` for tests with typed actors, and a list for what actors receive."""

from typing import Any

import pytest

from tests.actor.conftest import run_virtual
from tests.loops import clock, diary, loop, make_loop

__all__ = ("clock", "diary", "loop", "make_loop", "run_virtual", "seen")


@pytest.fixture
def seen() -> list[Any]:
    """An empty list, to be the state of an actor that collects or records its messages."""
    return []
