"""Taps: functions that see what passes the router, and where it goes.

There is one place that every message passes. Whoever wants to watch it (a tracer, an audit, a developer at a terminal) adds
a function there, and says by a `Filter` what it wants to see. A frame cannot be changed, so a tap can look and no more.

Two things must never happen: that watching costs where nobody watches, and that a watcher breaks what it looks at. So the
router asks one question of an empty `Taps`, and a function that raises is taken out, with its exception in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, cast, final

from bandstand.bus.frame import KINDS, Kind
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame

__all__ = ("Filter", "Tap", "Taps", "Watch")

logger = SafeLogger("bandstand.bus")

Watch: TypeAlias = "Callable[[Frame, str], object]"
"""What is called with each frame and the name of where it goes."""


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """What a tap wants to see. Without arguments: everything.

    Args:
        kinds: these kinds; none for all.
        types: these types, written out, or all that begin alike: `Memory.*`; none, or `*`, for all.

    Raises:
        InvalidArgument: something of it is no kind, or no type.
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
                raise InvalidArgument(
                    f"Filter: {name} is {safe_repr(given)}: pass several strings, as {name}=[...]"
                )
            # Frozen, and the same whatever they were given as.
            object.__setattr__(self, name, frozenset(cast("Collection[object]", given)))
        for kind in self.kinds:
            if kind not in KINDS:
                raise InvalidArgument(
                    f"Filter: {safe_repr(kind)} is no kind: pass some of {', '.join(KINDS)}"
                )
        exact: set[str] = set()
        prefixes: set[str] = set()
        for pattern in self.types:
            _sort_in(pattern, exact, prefixes)
        if "" in prefixes or not self.types:
            exact, prefixes = set(), {""}
        object.__setattr__(self, "_kinds", frozenset(self.kinds or KINDS))
        object.__setattr__(self, "_exact", frozenset(exact))
        object.__setattr__(self, "_prefixes", tuple(sorted(prefixes)))

    def matches(self, frame: Frame) -> bool:
        """Whether it is one of those."""
        name = frame.type
        return frame.kind in self._kinds and (name in self._exact or name.startswith(self._prefixes))


def _sort_in(pattern: object, exact: set[str], prefixes: set[str]) -> None:
    if not isinstance(pattern, str) or not pattern:
        raise InvalidArgument(
            f"Filter: {safe_repr(pattern)} is no type: pass names as 'Memory.Set' or 'Memory.*'"
        )
    if "*" not in pattern:
        exact.add(pattern)
    elif pattern == "*":
        prefixes.add("")
    elif pattern.endswith(".*") and "*" not in pattern[:-1] and len(pattern) > 2:
        prefixes.add(pattern[:-1])
    else:
        raise InvalidArgument(
            f"Filter: {safe_repr(pattern)}: a star stands alone, or after the last dot, as in 'Memory.*'; write the types out"
        )


@final
class Tap:
    """One function that watches. Made by `Taps.add`."""

    __slots__ = ("_function", "_taps", "_where", "is_removed")

    def __init__(self, taps: Taps, function: Watch, where: Filter | None) -> None:
        self._taps = taps
        self._function = function
        self._where = where
        self.is_removed = False
        """Whether it sees nothing any more: it was removed, or has raised."""

    def remove(self) -> None:
        """See nothing any more, from now on. Doing it twice does no harm."""
        if not self.is_removed:
            self.is_removed = True
            self._taps.entries = tuple(tap for tap in self._taps.entries if tap is not self)

    def see(self, frame: Frame, destination: str) -> None:
        """Look at one frame, if it is one of those that are wanted."""
        if self.is_removed or (self._where is not None and not self._where.matches(frame)):
            return
        try:
            self._function(frame, destination)
        except Exception:
            self.remove()
            logger.exception(
                "The tap %r raised over %s %s %r on its way to %s, and was removed; messages go on without it.",
                self._function,
                frame.kind,
                frame.type,
                frame.metadata.id,
                destination or "nobody",
            )


@final
class Taps:
    """All that watch one router. False while nobody does."""

    __slots__ = ("entries",)

    def __init__(self) -> None:
        self.entries: tuple[Tap, ...] = ()
        """Those that watch, in the order in which they came. Where nanoseconds count, test this: it asks no method."""

    def __bool__(self) -> bool:
        return bool(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, function: Watch, where: Filter | None = None) -> Tap:
        """Let a function see every frame from now on, or those that a filter picks.

        It is called on the router's own thread, in the path of every message: it should be quick.

        Returns:
            The tap, to be removed by.

        Raises:
            InvalidArgument: it cannot be called, or the filter is none.
        """
        if not callable(function):
            raise InvalidArgument(
                f"Taps.add: {safe_repr(function)} cannot be called: pass a function of (frame, destination)"
            )
        if where is not None and not isinstance(where, Filter):
            raise InvalidArgument(
                f"Taps.add: where is {safe_repr(where)}: pass a Filter, or None for everything"
            )
        tap = Tap(self, function, where)
        self.entries = (*self.entries, tap)
        return tap

    def pass_on(self, frame: Frame, destination: str) -> None:
        """Show a frame to all that want to see it, in the order in which they came.

        A function that is added meanwhile sees the next one; one that is removed meanwhile does not see this one.
        """
        for tap in self.entries:
            tap.see(frame, destination)
