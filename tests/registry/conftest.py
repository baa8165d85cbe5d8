"""The fixtures of `tests/loops.py`, with loops that have typed actors."""

from tests.actor.conftest import clock, diary, loop, make_loop
from tests.in_loop import bandstand_loop_factory, bandstand_system, pytest_itemcollected

__all__ = (
    "bandstand_loop_factory",
    "bandstand_system",
    "clock",
    "diary",
    "loop",
    "make_loop",
    "pytest_itemcollected",
)
