"""Which loops ride which event loop: how code that was given no loop finds the one it runs on."""

from __future__ import annotations

import asyncio
from weakref import WeakKeyDictionary

__all__ = ("dismount", "mount", "riders")

_riders: WeakKeyDictionary[asyncio.AbstractEventLoop, list[object]] = WeakKeyDictionary()


def mount(host: asyncio.AbstractEventLoop, loop: object) -> None:
    """Note that a loop rides an event loop from now on."""
    _riders.setdefault(host, []).append(loop)


def dismount(host: asyncio.AbstractEventLoop, loop: object) -> None:
    """Note that it does so no more."""
    _riders[host].remove(loop)


def riders() -> list[object]:
    """The loops that ride the event loop that is running on this thread, the last to come last."""
    try:
        host = asyncio.get_running_loop()
    except RuntimeError:
        return []
    return _riders.get(host, [])
