"""Whether everybody finds whom they want: what is wrong with a layout, as sentences, before anything starts."""

# A directory keeps what it wants under private names, to leave users theirs.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001  # likewise

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterator, Mapping
from inspect import signature
from types import SimpleNamespace, UnionType
from typing import Any, get_origin, get_type_hints

from bandstand.actor import Implements, Interface
from bandstand.actor.declaration import checked_actor_class
from bandstand.actor.introspection import type_argument
from bandstand.actor.schema import handle_methods_of
from bandstand.errors.formatting import safe_str
from bandstand.pod.directory import Directory, Wanted, wanted_by
from bandstand.pod.nested import NestedSpec
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pod.vocabulary import ThreadModel

__all__ = ("plays", "problems_of")

# Where a wish could be put by mistake.
CONTAINERS: tuple[type[Any], ...] = (dict, list, tuple, set, frozenset)


def problems_of(spec: TroupeSpec, nested: Mapping[str, NestedSpec]) -> Iterator[str]:
    """What is wrong with it, one sentence each; nothing, if it can play."""
    roles = {each.name: (home, each) for home in spec.pods for each in home.roles}
    for pod in spec.pods:
        if not pod.roles:
            yield f"pod {pod.name!r} has no roles: give it one, with {pod.name}.of(...) or {pod.name}.expose(...)"
        for role in pod.roles:
            yield from _misfits(role)
            for wanted in wanted_by(role.args, role.kwargs):
                yield from _unmet(spec, nested, roles, pod, role, wanted)


def _misfits(role: RoleSpec) -> Iterator[str]:
    """What is wrong with the arguments of a role."""
    where = f"role {role.name!r}"
    kind = checked_actor_class(role.kind)
    shape = signature(kind)
    try:
        shape.bind(*role.args, **role.kwargs)
    except TypeError as error:
        yield f"{where}: {kind.__qualname__}{shape} cannot be called with these arguments: {safe_str(error)}"
    for value in (*role.args, *role.kwargs.values()):
        if isinstance(value, CONTAINERS) and _hides_wish(value):
            yield f"{where}: a directory() is inside a {type(value).__name__}: pass it as an argument itself"


def _hides_wish(values: Any) -> bool:
    inside: Any = values.values() if hasattr(values, "values") else values
    return any(isinstance(each, Wanted) for each in inside)


def _unmet(
    spec: TroupeSpec,
    nested: Mapping[str, NestedSpec],
    roles: Mapping[str, tuple[PodSpec, RoleSpec]],
    pod: PodSpec,
    role: RoleSpec,
    wanted: Wanted,
) -> Iterator[str]:
    """The wishes of a directory that cannot be fulfilled."""
    where = f"role {role.name!r}: {wanted.kind.__qualname__}"
    for name in wanted.names or ():
        found = roles.get(name)
        if name in nested and pod.thread is ThreadModel.PROCESS:
            yield (
                f"{where} wants {name!r}, a troupe inside this one, which the process of pod {pod.name!r} cannot see: put the role "
                f"into a pod of another thread model"
            )
        elif name in nested:
            yield from _other_than_meant(where, wanted, name, nested[name].troupe)
        elif found is None:
            yield f"{where} wants {name!r}, and there is no such role{_hint(name, roles, nested, spec)}"
        elif not found[1].is_exposed and found[0].name != pod.name:
            yield (
                f"{where} wants {name!r}, which is in pod {found[0].name!r} and not exposed: expose it, or put both in one pod"
            )
        else:
            yield from _other_than_meant(where, wanted, name, checked_actor_class(found[1].kind))


def _other_than_meant(where: str, wanted: Wanted, name: str, kind: type[Any]) -> Iterator[str]:
    hint = _meant(wanted.kind, name)
    if hint is not None and (why := _unfit(kind, hint)) is not None:
        yield f"{where} wants {name!r} to be a {hint.__qualname__}, and it is a {kind.__qualname__}{why}"


def _hint(name: str, roles: Mapping[str, object], nested: Mapping[str, object], spec: TroupeSpec) -> str:
    if any(pod.name == name for pod in spec.pods):
        return f": {name!r} is a pod; name one of its roles"
    known = [*roles, *nested]
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]!r}?)" if close else f": there is {', '.join(known)}"


def _meant(kind: type[Directory], name: str) -> Any:
    """What a directory annotates for a name; None if that cannot be known here, or says nothing."""
    owner = kind._owners[name]
    module = sys.modules.get(owner.__module__)
    alone = SimpleNamespace(__annotations__={name: kind._wants[name]})
    try:
        hint = get_type_hints(alone, vars(module) if module else {}, dict(vars(owner)))[name]
    except Exception:  # noqa: BLE001  # a name for checkers only, or of a function's inside: it may raise whatever evaluating does
        return None
    return None if hint in {Any, object} else hint


def plays(kind: type[Any], declared: type[Any]) -> bool:
    """Whether handles of a class are what those of a declared one are typed as: for one with an interface apart, by that."""
    return _unfit(kind, _interface_of(declared) or declared) is None


def _unfit(kind: type[Any], hint: Any) -> str | None:
    """Why handles of a class are not what is meant; None if they are, or that cannot be told."""
    meant = get_origin(hint) or hint
    if not isinstance(meant, type) or meant is UnionType:
        # A union, a type variable: checkers know.
        return None
    if meant in (*kind.__mro__, *getattr(_interface_of(kind), "__mro__", ())):
        return None
    if not getattr(meant, "_is_protocol", False):
        return ""
    # A protocol is met by whoever has its methods.
    offered = (
        {*dir(Interface), *handle_methods_of(kind)} if hasattr(kind, "__actor_schema__") else set(dir(kind))
    )
    methods = {
        name
        for base in meant.__mro__
        if getattr(base, "_is_protocol", False)
        for name in vars(base)
        if not name.startswith("_")
    }
    missing = sorted(methods - offered)
    return f", which has no {missing[0]}" if missing else None


def _interface_of(kind: Any) -> Any:
    """The interface that a class implements; None if it has none apart from itself."""
    interface = type_argument(kind, Implements)
    return get_origin(interface) or interface
