"""How a process has ended, in a sentence."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

__all__ = ("Exit",)

# What to add for those who do not know the names. SIGKILL and SIGTERM are known, and say nothing about a fault.
MEANINGS = {
    signal.SIGSEGV: "segmentation fault",
    signal.SIGABRT: "aborted",
    signal.SIGBUS: "bus error",
    signal.SIGFPE: "arithmetic error",
    signal.SIGILL: "illegal instruction",
}


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process has ended: by itself with a code, or by a signal. Both are None if nobody can know any more."""

    code: int | None
    """What it has returned; None if a signal has ended it."""
    signal: int | None
    """The number of the signal that has ended it."""
    sentence: str
    """The same for people: "killed by SIGKILL", "exit code 3"; what it has raised, if it could still tell."""
    cause: BaseException | None = None
    """What it has raised, rebuilt, or a `RemoteError` in its place. Its own cause has the traceback from over there, as text."""

    @property
    def is_clean(self) -> bool:
        """Whether it has ended in good order."""
        return self.code == 0

    @classmethod
    def of_status(cls, status: int) -> Exit:
        """Read what the operating system has said."""
        code = os.waitstatus_to_exitcode(status)
        if code >= 0:
            return cls(code, None, f"exit code {code}")
        return cls(None, -code, f"killed by {signal_name(-code)}")

    @classmethod
    def unknown(cls) -> Exit:
        """It is gone, and how was told to somebody else."""
        return cls(
            None,
            None,
            "gone; something else in this program has waited for it (os.wait?) and knows how it ended",
        )


def signal_name(number: int) -> str:
    """The name of a signal, and what it means if that is a fault."""
    try:
        known = signal.Signals(number)
    except ValueError:  # a real-time signal has no name
        return f"signal {number}"
    meaning = MEANINGS.get(known)
    return known.name if meaning is None else f"{known.name} ({meaning})"
