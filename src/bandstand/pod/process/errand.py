"""What the machinery of two processes says to each other, apart from what the program says.

Everything in it can be read before anything of the program is there: what is the program's own is packed once more.
"""

from __future__ import annotations

from dataclasses import dataclass

from bandstand.errors import BandstandError
from bandstand.pod.link.faults import Fault, to_fault
from bandstand.pod.process.script import Script

__all__ = ("Errand", "Farewell", "Ready")


@dataclass(frozen=True, slots=True, kw_only=True)
class Errand:
    """What a process is started for: the first thing it hears."""

    target: str
    """What it runs: "module:function"."""
    payload: bytes
    """What that is called with, packed."""
    script: Script
    """The program it belongs to."""
    argv: tuple[str, ...]
    """The arguments of that program."""
    cores: frozenset[int] | None
    """Where it may run; None for where it is."""


@dataclass(frozen=True, slots=True)
class Ready:
    """The interpreter is up, everything is imported, and the target begins."""


@dataclass(frozen=True, slots=True)
class Farewell:
    """The last thing a process says if it can: what it fails of."""

    sentence: str
    """The same for people: "ValueError: no such page"; of our own errors just their sentence."""
    fault: Fault

    @classmethod
    def of(cls, error: BaseException) -> Farewell:
        """Say that this was it. Never raises."""
        fault = to_fault(error)
        if isinstance(error, BandstandError) and fault.says:
            return cls(fault.says, fault)
        name = type(error).__qualname__
        return cls(f"{name}: {fault.says}" if fault.says else name, fault)
