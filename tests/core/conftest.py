"""The fixtures of `tests/loops.py`, and `run_virtual` for tests with typed actors."""

from tests.actor.conftest import run_virtual
from tests.loops import clock, diary, loop, make_loop

__all__ = ("clock", "diary", "loop", "make_loop", "run_virtual")
