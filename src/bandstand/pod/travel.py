"""What goes to a child process: whether it can, said in a sentence before anything starts, and no more than it needs."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterator
from dataclasses import replace
from pkgutil import resolve_name

from bandstand.actor.declaration import checked_actor_class
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_str
from bandstand.pod.directory import Wanted
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from bandstand.pod.vocabulary import ThreadModel

__all__ = ("address_of", "check_travel", "luggage_for", "unfit_of")


def check_travel(spec: TroupeSpec, troupe: type) -> None:
    """Refuse a troupe whose process pods could not be made in a child process; `troupe` is its class.

    Raises:
        InvalidArgument: so it is; names role and pod, and says what to do.
    """
    for pod in spec.pods:
        if pod.thread is not ThreadModel.PROCESS:
            continue
        for problem in _problems(spec, pod):
            raise InvalidArgument(f"troupe {spec.name!r}: {problem}")
        if spec.carries and (why := unfit_of(troupe)):
            # A context variable has no name to be found by: it is found by its place in the class.
            raise InvalidArgument(
                f"troupe {spec.name!r}: it carries context variables to process pod {pod.name!r}: {why}"
            )


def luggage_for(spec: TroupeSpec, pod: str) -> TroupeSpec:
    """As much of a troupe as the process of one pod needs: of other pods no arguments, and of what it cannot see nothing.

    What it carries stays here: a context variable cannot be pickled. `address_of` says where it is found over there.
    """
    return replace(
        spec,
        carries=(),
        pods=tuple(
            each
            if each.name == pod
            else replace(
                each,
                roles=tuple(replace(role, args=(), kwargs={}) for role in each.roles if role.is_exposed),
            )
            for each in spec.pods
        ),
    )


def address_of(kind: type) -> str:
    """By what a class is found in another process, with `pkgutil.resolve_name`."""
    return f"{kind.__module__}:{kind.__qualname__}"


def unfit_of(kind: type) -> str | None:
    """Why a child process could not find a class by its name; None if it could."""
    if "<locals>" in kind.__qualname__:
        return f"{kind.__qualname__} is declared inside a function: move it to the top of a module"
    if kind.__module__ == "__main__" and not hasattr(sys.modules["__main__"], "__file__"):
        return f"{kind.__qualname__} was typed in, and is in no file: put it into a module"
    try:
        found = resolve_name(address_of(kind))
    except (ImportError, AttributeError):
        found = None
    if found is not kind:
        return f"{kind.__module__}.{kind.__qualname__} is not found by that name: give it the name it was made with"
    return None


def _problems(spec: TroupeSpec, pod: PodSpec) -> Iterator[str]:
    for home, role in spec.visible_to(pod.name).values():
        # Its peers it must know, too, to know what can be said to them.
        if why := unfit_of(checked_actor_class(role.kind)):
            is_own = home.name == pod.name
            yield f"role {role.name!r} {'of' if is_own else 'is seen by'} process pod {pod.name!r}: {why}"
    for role in pod.roles:
        yield from _unfit_arguments(pod, role)


def _unfit_arguments(pod: PodSpec, role: RoleSpec) -> Iterator[str]:
    named = [*((f"argument {at}", value) for at, value in enumerate(role.args, 1)), *role.kwargs.items()]
    for name, value in named:
        where = f"role {role.name!r} of process pod {pod.name!r}: {name}"
        if isinstance(value, Wanted):
            if why := unfit_of(value.kind):
                yield f"{where}: {why}"
            continue
        try:
            pickle.dumps(value, protocol=5)
        except Exception as error:  # noqa: BLE001  # whatever a value's own way of being pickled raises
            yield f"{where} is a {type(value).__qualname__}, which cannot be sent to a process ({safe_str(error)}): pass what can be pickled"
