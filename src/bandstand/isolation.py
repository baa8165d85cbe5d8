"""Capabilities in processes of their own, by configuration alone.

    async with Node([Greeter, isolated(Painter), isolated(provide(Resizer, "fast"))]) as node:
        ...

Whatever becomes of such a process (an exception, `os._exit`, a signal, a fault in somebody's C, no memory left), it is one failure of one
capability: the request at hand is answered with `Sys.ActorCrash`, those that wait are kept, the capability is started again as its policy
says, and nobody else on the node notices. What it can do, and how, is the same: see `bandstand.bus.annex`.

The bus knows that a capability may run elsewhere, and not what a process is; `bandstand.pod` knows processes, and no capabilities. Here they meet.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import sys
from collections import deque
from dataclasses import dataclass, replace
from typing import TypeAlias, cast, final, overload

from bandstand.bus import Capability, Contract, Provision, provide
from bandstand.bus.annex.performance import perform
from bandstand.bus.loading import load_file, loaded_files
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_str
from bandstand.pod.process import Child, Control, spawn_child

__all__ = ("isolated",)

_Source: TypeAlias = type[Capability] | Provision | Contract

# Bytes that may wait to be taken by the other end.
_HIGH = 1 << 20
_STDERR = 2


@overload
def isolated(source: Contract, /) -> Contract: ...


@overload
def isolated(source: type[Capability] | Provision, /) -> Provision: ...


def isolated(source: _Source, /) -> Provision | Contract:
    """The same capability, in a process of its own: a new one for each incarnation.

    Args:
        source: what a node would be given: a class, `provide(...)` of one, or a `Contract`. It is pickled, and so are the arguments
            of the constructor: classes and functions must be found by their name in their module.

    Raises:
        BadContract: it cannot be pickled; says what is in the way.
    """
    if not isinstance(source, (Contract, Provision)):
        source = provide(source)
    plain = replace(source, elsewhere=None)
    name = plain.id if isinstance(plain, Contract) else plain.kind.id or plain.kind.__name__
    try:
        luggage = _Luggage(loaded_files(), pickle.dumps(plain))
    except Exception as error:
        # Whatever it is that its parts do when they are pickled.
        raise BadContract(
            f"capability {name} cannot run in a process of its own, because it cannot be pickled: {safe_str(error)}. Classes and functions "
            f"must stand at the top of a module, and what its constructor is given must be plain data"
        ) from error
    return replace(plain, elsewhere=_Processes(luggage))


@dataclass(frozen=True, slots=True)
class _Luggage:
    """What goes to the process: a capability, and the files that were loaded by path, in which it may have been declared."""

    files: tuple[str, ...]
    source: bytes


@dataclass(frozen=True, slots=True)
class _Processes:
    """Elsewhere: in a process for each incarnation."""

    luggage: _Luggage

    async def open(self, name: str, /) -> _Quarters:
        """Start one."""
        child = await spawn_child(
            f"{__name__}:{_run.__name__}", name=name, payload=self.luggage, stdout=_standard_output()
        )
        return _Quarters(child)


def _standard_output() -> int | None:
    """Where what is printed over there goes: to where it goes here, if that is a file; else to standard error."""
    try:
        return sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return None if sys.stdout is sys.__stdout__ else _STDERR


class _Way:
    """A passage over the control channel of a process. What is sent in one turn of the event loop is one letter."""

    __slots__ = ("_arrived", "_control", "_event_loop", "_out")

    def __init__(self, control: Control) -> None:
        self._control = control
        self._event_loop = asyncio.get_running_loop()
        self._out: list[bytes] = []
        self._arrived: deque[bytes] = deque()

    @property
    def is_writable(self) -> bool:
        """Whether the other end keeps up."""
        return self._control.unwritten < _HIGH

    def send(self, errand: bytes, /) -> None:
        """Send something, soon."""
        if not self._out:
            self._event_loop.call_soon(self.post)
        self._out.append(errand)

    def post(self) -> None:
        """Send what waits to be sent."""
        out, self._out = self._out, []
        if out:
            self._control.send(out)

    async def receive(self) -> bytes | None:
        """The next thing that has come."""
        while not self._arrived:
            try:
                letter = await self._control.receive()
            except EOFError:
                return None
            self._arrived.extend(cast("list[bytes]", letter.word))
        return self._arrived.popleft()


@final
class _Quarters(_Way):
    """The node's end of it, and the process."""

    __slots__ = ("_child",)

    def __init__(self, child: Child) -> None:
        super().__init__(child.control)
        self._child = child

    async def wait(self) -> str:
        """Wait until the process has ended, and was reaped; how it has."""
        ended = await self._child.wait()
        self._control.close()
        return ended.sentence

    def kill(self) -> None:
        """Kill it."""
        self._child.kill()


async def _run(control: Control, luggage: _Luggage) -> None:
    """What the process does."""
    # As Ctrl-C is, it is often sent to all processes of a program: the node hears of it, and stops us when it is our turn. If the
    # node is gone, so are we.
    event_loop = asyncio.get_running_loop()
    event_loop.add_signal_handler(signal.SIGTERM, lambda: None)
    event_loop.set_exception_handler(_give_up)
    for path in luggage.files:
        load_file(path)
    way = _Way(control)
    # From our own parent, over a socket that nobody else has.
    source: _Source = pickle.loads(luggage.source)  # noqa: S301  # see above
    await perform(way, source)
    way.post()


def _give_up(event_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Something has gone wrong in the event loop, where nobody waits for it."""
    if isinstance(context.get("exception"), MemoryError) and "future" not in context:
        # What was to be said could not be, and whoever waits for it would wait until its deadline.
        os._exit(1)
    event_loop.default_exception_handler(context)
