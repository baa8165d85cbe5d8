"""The fixtures of `tests/loops.py`, and a recorder."""

from collections.abc import Iterator

import pytest

from bandstand.core import Loop
from tests.core.support import LoopMaker, check_statistics
from tests.loops import clock, diary, make_loop
from tests.supervision.helpers import NameRecorder

__all__ = ("clock", "diary", "loop", "make_loop", "recorder")


@pytest.fixture
def loop(make_loop: LoopMaker) -> Iterator[Loop]:
    """A loop whose counters balance at the end of the test, and again when it is destroyed."""
    loop = make_loop()
    yield loop
    check_statistics(loop)


@pytest.fixture
def recorder(loop: Loop) -> NameRecorder:
    """Who started and ended, by name. It is the loop's observer."""
    recorder = NameRecorder()
    loop.set_observer(recorder)
    return recorder
