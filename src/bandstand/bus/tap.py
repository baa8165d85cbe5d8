"""Taps: functions that are called with every message that passes the router, and its destination.

Every message passes one place. A tracer, an audit or a developer at a terminal adds a function there, with a `Filter` that selects messages. Frames
are immutable, so a tap can read messages but not change them.

A router without taps pays one test per message. A tap that raises is removed, and its exception is logged: it cannot break the node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast, final

from bandstand.bus.frame import KINDS, Kind
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = ("Filter", "Tap", "TapFunction", "Taps")

logger = SafeLogger("bandstand.bus")

TapFunction: TypeAlias = "Callable[[Frame, str], object]"
"""Called with each frame and the name of its destination."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Selects messages by kind and type. Without arguments it selects all.

    Args:
        kinds: the kinds; empty for all.
        types: the types, as names or as prefixes such as `Memory.*`; empty, or `*`, for all.

    Raises:
        InvalidArgumentError: a kind or a type is invalid.
    """

    kinds: Collection[Kind] = ()
    types: Collection[str] = ()
    _kinds: frozenset[str] = field(init=False, repr=False, compare=False)
    _exact: frozenset[str] = field(init=False, repr=False, compare=False)
    _prefixes: tuple[str, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("kinds", "types"):
            given: object = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Collection):
                raise InvalidArgumentError(
                    f"Filter: {name} is {safe_repr(given)}: pass several strings, as {name}=[...]"
                )
            # A frozenset, so that the filter is immutable, and equal to others with the same content.
            object.__setattr__(self, name, frozenset(cast("Collection[object]", given)))
        for kind in self.kinds:
            if kind not in KINDS:
                raise InvalidArgumentError(
                    f"Filter: {safe_repr(kind)} is not a kind: pass some of {', '.join(KINDS)}"
                )
        exact: set[str] = set()
        prefixes: set[str] = set()
        for pattern in self.types:
            _add_pattern(pattern, exact, prefixes)
        if "" in prefixes or not self.types:
            exact, prefixes = set(), {""}
        object.__setattr__(self, "_kinds", frozenset(self.kinds or KINDS))
        object.__setattr__(self, "_exact", frozenset(exact))
        object.__setattr__(self, "_prefixes", tuple(sorted(prefixes)))

    def matches(self, frame: Frame) -> bool:
        """Return whether the filter selects a message."""
        name = frame.type
        return frame.kind in self._kinds and (name in self._exact or name.startswith(self._prefixes))


def _add_pattern(pattern: object, exact: set[str], prefixes: set[str]) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidArgumentError(
            f"Filter: {safe_repr(pattern)} is not a type: pass names as 'Memory.Set' or 'Memory.*'"
        )
    if "*" not in pattern:
        exact.add(pattern)
    elif pattern == "*":
        prefixes.add("")
    elif pattern.endswith(".*") and "*" not in pattern[:-1] and len(pattern) > 2:
        prefixes.add(pattern[:-1])
    else:
        raise InvalidArgumentError(
            f"Filter: {safe_repr(pattern)}: use * alone or after the last dot, as in 'Memory.*'; or list the types"
        )


@final
class Tap:
    """One function that is called with messages. Created by `Taps.add`."""

    __slots__ = ("_function", "_taps", "_where", "is_removed")

    def __init__(self, taps: Taps, function: TapFunction, where: Filter | None) -> None:
        self._taps = taps
        self._function = function
        self._where = where
        self.is_removed = False
        """Whether it was removed, explicitly or because it raised."""

    def remove(self) -> None:
        """Remove the tap. A second call has no effect."""
        if not self.is_removed:
            self.is_removed = True
            self._taps.replace(tuple(tap for tap in self._taps.entries if tap is not self))

    def call(self, frame: Frame, destination: str) -> None:
        """Call the function with a frame, if its filter selects it."""
        if self.is_removed or (self._where is not None and not self._where.matches(frame)):
            return
        try:
            self._function(frame, destination)
        except Exception:
            self.remove()
            logger.exception(
                "the tap %r was removed because it raised for %s %s %r, sent to %s",
                self._function,
                frame.kind,
                frame.type,
                frame.metadata.id,
                destination or "none",
            )


@final
class Taps:
    """The taps of one router. False if there are none."""

    __slots__ = ("entries", "on_change")

    def __init__(self) -> None:
        self.entries: tuple[Tap, ...] = ()
        """The taps, in the order in which they were added."""
        self.on_change: Callable[[bool], object] = bool
        """Called when one was added or removed, with whether there are any."""

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, function: TapFunction, where: Filter | None = None) -> Tap:
        """Call a function with every frame from now on, or with those that a filter selects.

        It is called on the router's thread for every message, so it should be fast.

        Returns:
            The tap, for removing it.

        Raises:
            InvalidArgumentError: `function` is not callable, or `where` is not a `Filter`.
        """
        if not callable(function):
            raise InvalidArgumentError(
                f"Taps.add: {safe_repr(function)} is not callable: pass a function of (frame, destination)"
            )
        if where is not None and not isinstance(where, Filter):
            raise InvalidArgumentError(
                f"Taps.add: where is {safe_repr(where)}: pass a Filter, or None for everything"
            )
        tap = Tap(self, function, where)
        self.replace((*self.entries, tap))
        return tap

    def replace(self, entries: tuple[Tap, ...]) -> None:
        """Replace all taps."""
        self.entries = entries
        self.on_change(bool(entries))

    def notify(self, frame: Frame, destination: str) -> None:
        """Call the taps with a frame, in the order in which they were added.

        A tap that is added meanwhile is called from the next frame on; one that is removed meanwhile is not called with this one.
        """
        for tap in self.entries:
            tap.call(frame, destination)
