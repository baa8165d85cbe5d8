"""Cores: a thread that wants one to itself asks for it here, and is told whether it has it.

Whoever starts a thread or a process hands his own cores down with it. So a thread that was started by a pinned one, and did not
ask for a core, must be let go first: `unpin` gives it back what the process had before anybody in it was pinned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from bandstand.core.logs import SafeLogger

__all__ = ("home_cores", "pin", "settle", "unpin")

logger = SafeLogger("bandstand.pod")

_lock = Lock()
# What the process could run on before anybody in it was pinned; None until somebody is, or asks.
_home: frozenset[int] | None = None


def pin(core: int, what: str) -> bool:
    """Pin the current thread to a core, and ask the operating system whether it is.

    Nothing fails if that cannot be: the thread runs where it ran before, and a warning says what to do.

    Args:
        core: its number, from 0 on.
        what: who wants it, for people: "pod 'engine'".

    Returns:
        Whether the thread now runs on that core only.
    """
    home = home_cores()
    if home is None:
        logger.warning(
            "%s asks for core %d, but %s cannot pin a thread: it runs on any core; leave core= out",
            what,
            core,
            sys.platform,
        )
        return False
    try:
        _set({core})
    except (OSError, OverflowError, ValueError) as error:
        logger.warning(
            "%s asks for core %d, but that is none that this process may run on (%s): it runs on any core; "
            "pass one of %s, or allow the process more (taskset, cpuset)",
            what,
            core,
            error,
            _listed(home),
        )
        return False
    if (now := _now()) != frozenset({core}):
        logger.warning(
            "%s asks for core %d, and the operating system has put it on %s: "
            "see what else assigns cores to this process",
            what,
            core,
            _listed(now),
        )
        return False
    return True


def unpin() -> None:
    """Let the current thread run wherever this process could before anybody in it was pinned."""
    if _home is not None:
        settle(_home)


def settle(cores: Iterable[int] | None) -> None:
    """Let the current thread run on these cores: a process, on what the one that has started it calls home.

    What is left of them counts; if there is nothing left, or the platform has no such thing, everything stays as it is.
    """
    if cores is not None and _has_affinity():
        # Somebody may have taken cores away from all of us meanwhile.
        with suppress(OSError):
            _set(cores)


def home_cores() -> frozenset[int] | None:
    """The cores that this process could run on before anybody in it was pinned; None where the platform does not tell."""
    global _home  # noqa: PLW0603  # the cores of a process are the process's
    with _lock:
        if _home is None and _has_affinity():
            _home = _now()
        return _home


def _listed(cores: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(cores)))


# The three that not every platform has: asked by name, so that it need not.


def _has_affinity() -> bool:
    return hasattr(os, "sched_setaffinity")


def _set(cores: Iterable[int]) -> None:
    # 0 is the calling thread, not the process.
    os.sched_setaffinity(0, cores)


def _now() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))
