"""A faulty ingress between the adapters of a node and the node, to show that tests notice faults."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from bandstand.bus import UnixAdapter

if TYPE_CHECKING:
    from bandstand.bus import Frame
    from bandstand.errors import InvalidMessageError

# Any: lines and ingresses are protocols; the parts without a fault are passed through.


class FaultyLine:
    """A line of a client whose `deliver` is replaced: `deliver(line, frame, settles)`."""

    def __init__(self, line: Any, deliver: Callable[[Any, Frame, bool], bool | None]) -> None:
        self._line = line
        self._deliver = deliver

    def __getattr__(self, name: str) -> Any:
        return getattr(self._line, name)

    def deliver(self, frame: Frame, settles: bool) -> bool | None:
        return self._deliver(self._line, frame, settles)


class FaultyIngress:
    """An ingress that passes everything on. Derive from it to add a fault."""

    def __init__(self, ingress: Any) -> None:
        self._ingress = ingress
        self._lines: dict[Any, Any] = {}

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ingress, name)

    def wrap(self, line: Any) -> Any:
        """Return the line that the node sees."""
        return line

    def open(self, line: Any) -> None:
        self._lines[line] = self.wrap(line)
        self._ingress.open(self._lines[line])

    def admit(self, line: Any, frame: Frame) -> bool:
        admitted: bool = self._ingress.admit(self._lines[line], frame)
        return admitted

    def refuse(self, line: Any, problem: InvalidMessageError) -> None:
        self._ingress.refuse(self._lines[line], problem)

    def drained(self, line: Any) -> None:
        self._ingress.drained(self._lines[line])

    def close(self, line: Any) -> None:
        self._ingress.close(self._lines.pop(line, line))


def start_with(
    make: Callable[[Any], FaultyIngress], adapter: type[Any] = UnixAdapter
) -> Callable[[Any, Any], Coroutine[Any, Any, None]]:
    """Return a replacement for `start` of an adapter class that gives it a faulty ingress."""
    started: Callable[[Any, Any], Coroutine[Any, Any, None]] = adapter.start

    async def start(self: Any, ingress: Any) -> None:
        await started(self, make(ingress))

    return start
