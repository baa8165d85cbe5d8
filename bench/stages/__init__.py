"""The stages: a module for each system that plays programs, with `play(program, setting)` in each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

from bench.case import Kind, Measure, Outcome, Setting
from bench.stage import Program

STAGES: dict[Kind, str] = {
    "raw": "raw",
    "queues": "queues",
    "pykka": "pykka",
    "thespian": "thespian",
    "xoscar": "xoscar",
}
"""The kinds of systems that play programs, and their modules here."""


def measures(program: Program, *kinds: Kind) -> dict[Kind, Measure]:
    """A measure of a program for each of them, or for these kinds alone."""
    return {kind: partial(_measure, STAGES[kind], program) for kind in kinds or STAGES}


def _measure(module: str, program: Program, setting: Setting) -> Outcome:
    # Only the system's own process has all that it needs.
    play: Callable[[Program, Setting], Outcome] = import_module(f"bench.stages.{module}").play
    return play(program, setting)
