"""What the capability of an annex has scheduled for later: its node knows of it too, and does it if the annex does not live so long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.bus.errands import Later, TakenBack, written
from bandstand.bus.schedule import Schedule
from bandstand.bus.wire import write_frame

if TYPE_CHECKING:
    from bandstand.bus.annex.router import AnnexRouter
    from bandstand.bus.frame import Frame
    from bandstand.bus.origin import Origin
    from bandstand.bus.ports import Passage
    from bandstand.bus.schedule import Due

__all__ = ("Will",)


class Will(Schedule):
    """A schedule of which the node is told."""

    __slots__ = ("_passage", "_promised")

    def __init__(self, router: AnnexRouter, passage: Passage) -> None:
        super().__init__(router)
        self._passage = passage
        # The id of each message, by what it is taken back by.
        self._promised: dict[str, str] = {}

    def add(self, frame: Frame, delay_ms: int, origin: Origin, path: str) -> str:
        """Have a message sent later."""
        timer_id = super().add(frame, delay_ms, origin, path)
        self._promised[timer_id] = frame.metadata.id
        self._passage.send(written(Later(delay_ms, write_frame(frame))))
        return timer_id

    def cancel(self, timer_id: str) -> bool:
        """Take it back."""
        is_cancelled = super().cancel(timer_id)
        if is_cancelled:
            self._passage.send(written(TakenBack(self._promised.pop(timer_id))))
        return is_cancelled

    def fire(self, due: Due) -> None:
        """Its time has come: the node sees so when it gets it."""
        self._promised.pop(due.id, None)
        super().fire(due)
