"""CPU affinity: pin a thread to a core, and check that it is pinned.

A new thread or process inherits the cores of the thread that starts it. So a thread that was started by a pinned thread, and did not
ask for a core, must be unpinned first: `unpin` gives it the cores that the process had before any of its threads was pinned.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from threading import Lock

from bandstand.core.logs import SafeLogger

__all__ = ("allow_cores", "pin", "process_cores", "unpin")

logger = SafeLogger("bandstand.pod")

_lock = Lock()
# The cores of the process before any of its threads was pinned; None until they are needed.
_process_cores: frozenset[int] | None = None


def pin(core: int, what: str) -> bool:
    """Pin the current thread to a core, and ask the operating system whether it is pinned.

    If that is impossible, the thread keeps its cores, and a warning says what to do.

    Args:
        core: the number of the core, from 0.
        what: what asks for the core, for the log: "pod 'engine'".

    Returns:
        Whether the thread now runs on that core only.
    """
    allowed = process_cores()
    if allowed is None:
        logger.warning(
            "%s asks for core %d, but %s cannot pin threads: it runs on any core; leave core= out",
            what,
            core,
            sys.platform,
        )
        return False
    try:
        _set_cores({core})
    except (OSError, OverflowError, ValueError) as error:
        logger.warning(
            "%s asks for core %d, but this process may not run on it (%s): it runs on any core; "
            "pass one of %s, or allow the process more cores (taskset, cpuset)",
            what,
            core,
            error,
            _listed(allowed),
        )
        return False
    if (current := _current_cores()) != frozenset({core}):
        logger.warning(
            "%s asks for core %d, but the operating system runs it on %s: check what else assigns cores to this process",
            what,
            core,
            _listed(current),
        )
        return False
    return True


def unpin() -> None:
    """Let the current thread run on all cores that this process had before any of its threads was pinned."""
    if _process_cores is not None:
        allow_cores(_process_cores)


def allow_cores(cores: Iterable[int] | None) -> None:
    """Let the current thread run on these cores. A child process calls this with the cores of its parent.

    Cores that are not available any more are ignored. If none is available, or the platform has no affinity, nothing changes.
    """
    if cores is not None and _has_affinity():
        # The cores of the process may have been reduced meanwhile.
        with suppress(OSError):
            _set_cores(cores)


def process_cores() -> frozenset[int] | None:
    """Return the cores of this process before any of its threads was pinned; None if the platform has no affinity."""
    global _process_cores  # noqa: PLW0603  # the cores of the process
    with _lock:
        if _process_cores is None and _has_affinity():
            _process_cores = _current_cores()
        return _process_cores


def _listed(cores: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(cores)))


# Not every platform has these functions, so they are looked up when they are called.


def _has_affinity() -> bool:
    return hasattr(os, "sched_setaffinity")


def _set_cores(cores: Iterable[int]) -> None:
    # 0 is the calling thread, not the process.
    os.sched_setaffinity(0, cores)


def _current_cores() -> frozenset[int]:
    return frozenset(os.sched_getaffinity(0))
