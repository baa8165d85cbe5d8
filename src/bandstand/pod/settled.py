"""Waiting on an event loop for what another thread will do."""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

__all__ = ("settled",)


async def settled(future: Future[Any]) -> None:  # of whatever it brings
    """Wait until it is done, however. Whoever is cancelled meanwhile leaves it alone."""
    home = asyncio.get_running_loop()
    mine = home.create_future()

    def wake() -> None:
        if not mine.done():
            mine.set_result(None)

    def tell(_future: object) -> None:
        # Nobody may be waiting any more, nor anything be running there.
        with suppress(RuntimeError):
            home.call_soon_threadsafe(wake)

    future.add_done_callback(tell)
    await mine
