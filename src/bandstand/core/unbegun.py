"""A coroutine that cannot begin yet, because nobody drives the loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from bandstand.core.hot.cell import Cell

__all__ = ("Unbegun",)


@final
class Unbegun:
    """Stands in a cell for the driver that its coroutine will have once the loop is driven."""

    __slots__ = ("_withdraw", "cell", "context", "job")

    def __init__(
        self,
        cell: Cell,
        job: Coroutine[Any, Any, Any],
        context: Context | None,
        withdraw: Callable[[Unbegun], None],
    ) -> None:
        self.cell = cell
        self.job = job
        self.context = context
        self._withdraw = withdraw

    def cancel(self) -> None:
        """Give it up: like a task that is cancelled before its first step, it never begins."""
        self._withdraw(self)
        self.job.close()
