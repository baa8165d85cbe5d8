"""A troupe in a troupe: it has a kubelet of its own, and its failure stops at its border unless the parent watches it."""

# A troupe keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001  # likewise

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Never, Self, TypeVar, final, overload

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.errors.validation import check_member
from bandstand.pod.spec import PodSpec, check_name
from bandstand.pod.vocabulary import RestartPolicy, ThreadModel
from bandstand.supervision import Backoff, Intensity

if TYPE_CHECKING:
    from bandstand.pod.cast import Cast
    from bandstand.pod.manifest import Manifest

__all__ = ("NestedSpec", "NestedTroupe", "nested")

# How often is too often, if nothing is said.
OFTEN = Intensity(3, 5000.0)

C = TypeVar("C", bound="Cast")
C_co = TypeVar("C_co", bound="Cast", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class NestedSpec:
    """A troupe inside another.

    Raises:
        InvalidArgument: a value, or two values together, have no sense; both are named.
    """

    name: str
    """By this name the pods around it have it in their directories: `peers.effects.reverb`."""
    troupe: type[Cast]
    """Its class."""
    layout: Mapping[str, PodSpec] | None = None
    """Its layout; None for the declared one."""
    is_watched: bool = True
    """Whether its failure is the parent's business. If not, it is logged, and nobody comes back behind its handles."""
    restart: RestartPolicy = RestartPolicy.NEVER
    """When the parent starts it again, the whole of it."""
    intensity: Intensity = OFTEN
    """How many restarts within what time are too many: then its failure is the parent's own."""
    backoff: Backoff | None = None
    """How long to wait before a restart after a failure; None for not at all."""

    def __post_init__(self) -> None:
        check_name("NestedSpec", self.name)
        where = f"nested troupe {self.name!r}"
        if not hasattr(self.troupe, "_manifest") or not hasattr(self.troupe, "__mro__"):
            raise InvalidArgument(
                f"{where}: troupe is {self.troupe!r}: pass a class that derives from Troupe"
            )
        check_member(f"{where}: restart", self.restart, RestartPolicy)
        if not isinstance(self.is_watched, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  # same
            raise InvalidArgument(f"{where}: watched is {safe_repr(self.is_watched)}: pass True or False")
        if self.restart is not RestartPolicy.NEVER and not self.is_watched:
            raise InvalidArgument(
                f"{where}: watched is False and restart is {self.restart.name}: who does not watch it cannot start it again"
            )
        for pod in self.manifest.spec.pods:
            if pod.thread is ThreadModel.MAIN:
                raise InvalidArgument(
                    f"{where}: pod {pod.name!r} wants the main thread, which is the outermost troupe's: give it another layout"
                )

    @property
    def manifest(self) -> Manifest:
        """What plays in it, and where."""
        return self.troupe._laid_out(self.layout)


@final
class NestedTroupe(Generic[C_co]):
    """A troupe inside another, as the class declares it. On a troupe, the troupe inside."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self._options = options
        self.name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        # As with roles.
        self.name = self.name or name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: Cast, owner: type[Any]) -> C_co: ...
    def __get__(self, instance: Cast | None, owner: type[Any]) -> Any:
        return self if instance is None else instance._nested(self.name)

    def __set__(self, instance: object, value: Never) -> Never:
        raise AttributeError(f"{type(instance).__qualname__}.{self.name} is a troupe of its own, and stays")

    def spec(self) -> NestedSpec:
        """The same as data, checked."""
        return NestedSpec(name=self.name, **self._options)

    def __repr__(self) -> str:
        troupe = self._options["troupe"]
        return f"<nested troupe {self.name!r}: {getattr(troupe, '__qualname__', troupe)}>"


def nested(
    troupe: type[C],
    /,
    *,
    watched: bool = True,
    layout: Mapping[str, PodSpec] | None = None,
    restart: RestartPolicy = RestartPolicy.NEVER,
    intensity: Intensity = OFTEN,
    backoff: Backoff | None = None,
) -> NestedTroupe[C]:
    """A troupe in the troupe, with what `NestedSpec` says. For the program it is an attribute: `studio.effects.reverb`.

    Args:
        troupe: its class.
        watched: whether its failure is the parent's business.
        layout: its layout; None for the declared one.
        restart: when the parent starts it again, the whole of it.
        intensity: how many restarts within what time are too many: then its failure is the parent's own.
        backoff: how long to wait before a restart after a failure; None for not at all.
    """
    return NestedTroupe(
        {
            "troupe": troupe,
            "is_watched": watched,
            "layout": layout,
            "restart": restart,
            "intensity": intensity,
            "backoff": backoff,
        }
    )
