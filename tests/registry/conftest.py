"""The fixtures of `tests/loops.py`, with loops that have typed actors."""

from tests.actor.conftest import clock, diary, loop, make_loop

__all__ = ("clock", "diary", "loop", "make_loop")
