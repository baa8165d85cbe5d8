"""Reading the class of a troupe: from its attributes to what plays, and where.

Everything that can be wrong with it is found here, when the class is made, and said with the names of class, pod and role. The
same holds for a layout that takes the place of the declared one.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from inspect import ismethod
from typing import Any, ClassVar, Protocol, TypeAlias

from bandstand.actor.declaration import checked_actor_class
from bandstand.errors import BadDeclaration, InvalidArgument
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.declare import PodOptions, RoleDeclaration, RoleOptions, pod
from bandstand.pod.nested import NestedSpec, NestedTroupe
from bandstand.pod.spec import PodSpec, TroupeSpec
from bandstand.pod.wiring import plays, problems_of

__all__ = ("Manifest", "read_troupe")

# For isinstance, which knows nothing of their parameters.
DECLARATIONS: tuple[type[Any], ...] = (PodOptions, RoleDeclaration, NestedTroupe)
# What handles a declaration has is its own business: here any will do.
Found: TypeAlias = "dict[str, PodOptions | RoleDeclaration[Any] | NestedTroupe[Any]]"


class Declared(Protocol):
    """What a class says of a troupe besides who plays in it."""

    carries: ClassVar[tuple[ContextVar[Any], ...]]  # of whatever they hold
    kubelet_core: ClassVar[int | None]
    stop_ms: ClassVar[float]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What plays in a troupe, and where."""

    spec: TroupeSpec
    nested: tuple[NestedSpec, ...] = ()
    """The troupes inside it, in the order in which they were declared."""

    def laid_out(self, layout: Mapping[str, PodSpec]) -> Manifest:
        """The same roles in other pods.

        Raises:
            InvalidArgument: it has no sense; the sentence says where.
        """
        where = f"the layout of troupe {self.spec.name!r}"
        for name, each in layout.items():
            if not isinstance(each, PodSpec):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
                raise InvalidArgument(f"{where}: {name!r} is {safe_repr(each)}: pass PodSpecs by their names")
            if each.name != name:
                raise InvalidArgument(f"{where}: pod {each.name!r} is there as {name!r}: use its own name")
        try:
            spec = replace(self.spec, pods=tuple(layout.values()))
        except InvalidArgument as error:
            raise InvalidArgument(f"{where}: {safe_str(error)}") from None
        self._check_roles(where, spec)
        _refuse(f"{where}: ", InvalidArgument, spec, self.nested)
        return Manifest(spec, self.nested)

    def _check_roles(self, where: str, spec: TroupeSpec) -> None:
        """Refuse other roles than the declared ones."""
        declared = {role.name: role for each in self.spec.pods for role in each.roles}
        given = {role.name: role for each in spec.pods for role in each.roles}
        for name in declared:
            if name not in given:
                raise InvalidArgument(f"{where}: role {name!r} is in no pod: every role is in exactly one")
        for name, role in given.items():
            known = declared.get(name)
            if known is None:
                raise InvalidArgument(
                    f"{where}: role {name!r} is not declared: there is {', '.join(declared)}"
                )
            # Handles are typed by what was declared: for one with an interface apart, by that.
            kind, meant = checked_actor_class(role.kind), checked_actor_class(known.kind)
            if not plays(kind, meant):
                raise InvalidArgument(
                    f"{where}: role {name!r} is a {kind.__qualname__}, and was declared as a {meant.__qualname__}: "
                    f"pass one that derives from that"
                )
            if known.is_exposed and not role.is_exposed:
                raise InvalidArgument(
                    f"{where}: role {name!r} was declared as exposed: leave is_exposed True"
                )


def read_troupe(cls: type[Declared]) -> Manifest:
    """Read a class of troupes.

    Raises:
        BadDeclaration: it contradicts itself; names class, pod and role.
    """
    found, homes = _scan(cls)
    pods = _grouped(cls, found, homes)
    if not isinstance(cls.carries, tuple):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise BadDeclaration(
            f"{cls.__qualname__}.carries is {safe_repr(cls.carries)}: pass a tuple of ContextVars"
        )
    try:
        nested = tuple(each.spec() for each in found.values() if isinstance(each, NestedTroupe))
        spec = TroupeSpec(
            name=cls.__name__.lstrip("_"),
            pods=tuple(
                options.spec(name, tuple(role.spec() for role in roles))
                for name, (options, roles) in pods.items()
            ),
            carries=cls.carries,
            core=cls.kubelet_core,
            stop_ms=cls.stop_ms,
        )
    except InvalidArgument as error:
        raise BadDeclaration(f"{cls.__qualname__}: {safe_str(error)}") from None
    _refuse(f"{cls.__qualname__}: ", BadDeclaration, spec, nested)
    return Manifest(spec, nested)


def _refuse(
    where: str,
    error: type[BadDeclaration | InvalidArgument],
    spec: TroupeSpec,
    nested: tuple[NestedSpec, ...],
) -> None:
    for problem in problems_of(spec, {each.name: each for each in nested}):
        raise error(where + problem)


def _scan(cls: type) -> tuple[Found, dict[int, str]]:
    """What is declared, by name, that of bases first; and the names of pods, by the identity of their options."""
    found: Found = {}
    homes: dict[int, str] = {}
    known: dict[int, str] = {}
    for owner in reversed(cls.__mro__):
        value: Any  # whatever it is, it is looked at
        for name, value in vars(owner).items():
            where = f"{owner.__qualname__}.{name}"
            if name in found:
                _refuse_override(where, found[name], value)
            if isinstance(value, DECLARATIONS):
                _refuse_name(cls, where, name)
                _refuse_kind(where, value)
                if known.setdefault(id(value), name) != name:
                    raise BadDeclaration(
                        f"{where} is the same declaration as {known[id(value)]!r}: declare each of them"
                    )
                found[name] = value
                if isinstance(value, PodOptions):
                    homes[id(value)] = name
            elif isinstance(value, RoleOptions) or value is pod or _is_unfinished(value):
                raise BadDeclaration(
                    f"{where} is {safe_repr(value)}, which does not say what plays there: call .of(TheClass) or .expose(TheClass)"
                )
    return found, homes


def _is_unfinished(value: object) -> bool:
    """Whether it is the `of` or `expose` of somebody, uncalled."""
    return ismethod(value) and isinstance(value.__self__, RoleOptions)


def _refuse_override(where: str, known: Any, value: Any) -> None:
    """What a base declares stays what it is: else what is typed as the base would lie."""
    sort = next(each for each in DECLARATIONS if isinstance(known, each))
    if not isinstance(value, sort):
        raise BadDeclaration(
            f"{where} overrides {safe_repr(known)} with {safe_repr(value)}: override it with another of its sort"
        )
    if isinstance(value, RoleDeclaration):
        _refuse_kind(where, value)
        if known.is_exposed and not value.is_exposed:
            raise BadDeclaration(
                f"{where} overrides {safe_repr(known)} and hides it: declare it with expose()"
            )
        if not plays(checked_actor_class(value.kind), checked_actor_class(known.kind)):
            raise BadDeclaration(
                f"{where} overrides {safe_repr(known)} with a {checked_actor_class(value.kind).__qualname__}: declare one that derives from that"
            )


def _refuse_kind(where: str, value: Any) -> None:
    """Refuse a role of something that is no class of actors."""
    if isinstance(value, RoleDeclaration):
        try:
            checked_actor_class(value.kind)
        except InvalidArgument as error:
            raise BadDeclaration(f"{where}: {safe_str(error)}") from None


def _refuse_name(cls: type, where: str, name: str) -> None:
    """Refuse a name that every troupe has for its own, or that nobody outside should use."""
    if name.startswith("_"):
        raise BadDeclaration(
            f"{where} begins with an underscore: others are to call it by its name; choose another"
        )
    for base in cls.__mro__:
        if base.__module__.startswith("bandstand.pod.") and name in vars(base):
            raise BadDeclaration(f"{where} is a name that every troupe has for its own: choose another")


def _grouped(
    cls: type, found: Found, homes: Mapping[int, str]
) -> dict[str, tuple[PodOptions, list[RoleDeclaration[Any]]]]:
    """The pods by name, each with its roles, in the order of their declaration."""
    pods: dict[str, tuple[PodOptions, list[RoleDeclaration[Any]]]] = {}
    alone: dict[int, str] = {}
    for name, each in found.items():
        if isinstance(each, PodOptions):
            pods.setdefault(name, (each, []))
        elif isinstance(each, RoleDeclaration):
            options = each.options.pod
            home = homes.get(id(options))
            if home is None:
                if alone.setdefault(id(options), name) != name:
                    raise BadDeclaration(
                        f"{cls.__qualname__}: roles {alone[id(options)]!r} and {name!r} share a pod that has no name: make the "
                        f"pod an attribute of the class"
                    )
                pods[name] = (options, [each])
                continue
            # A class that derives from this one may have other options for the pod, under the same name.
            own = found[home]
            assert isinstance(own, PodOptions)
            pods.setdefault(home, (own, []))[1].append(each)
    # A pod whose roles a class that derives from its class has all put elsewhere is no more; one without any is a mistake.
    return {name: entry for name, entry in pods.items() if entry[1] or name in vars(cls)}
