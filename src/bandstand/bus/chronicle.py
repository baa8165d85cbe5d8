"""Writing down what passes, whatever the log is made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from bandstand.bus.hot.log import MemoryLog
from bandstand.core.logs import SafeLogger

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.ports import Log

__all__ = ("guarded",)

logger = SafeLogger("bandstand.bus")


def guarded(log: Log) -> Callable[[Frame], None]:
    """How to write something down: a log that fails must not take the node along."""
    if type(log) is MemoryLog:
        return log.append

    def append(frame: Frame) -> None:
        try:
            log.append(frame)
        except Exception:  # whatever a log of somebody's own raises
            logger.exception("the log %r has failed; %s %s is not in it", log, frame.kind, frame.type)

    return append
