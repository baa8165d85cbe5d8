"""The fixtures of `tests/loops.py`."""

from tests.loops import clock, diary, loop, make_loop

__all__ = ("clock", "diary", "loop", "make_loop")
