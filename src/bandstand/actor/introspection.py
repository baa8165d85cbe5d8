"""Whether a handler is what its interface declares: parameter by parameter, by name, kind, default and type."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import Any

from bandstand.actor.decorators import Mark
from bandstand.actor.generics import is_open
from bandstand.errors import BadDeclaration

__all__ = ("BY_POSITION", "hint_of", "parameters_of", "refuse_shape", "returns_of")

BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
# What an annotation is that cannot be evaluated.
UNKNOWN = object()


def refuse_shape(cls: type, interface: type, name: str, mark: Mark, handler: Callable[..., Any]) -> None:
    """Compare a handler with its declaration, parameter by parameter."""
    where = f"{cls.__qualname__}.{name}"
    declared, written = parameters_of(mark.function), parameters_of(handler)
    for position, (wanted, found) in enumerate(zip(declared, written, strict=False), 1):
        difference = _difference(wanted, found)
        if not difference and Parameter.empty not in (wanted.annotation, found.annotation):
            one, other = _type_name(wanted.annotation), _type_name(found.annotation)
            if not _is_same(wanted.name, mark.function, handler, one, other):
                difference = f"({found.name}) is of {other}, not of {one}"
        if difference:
            raise BadDeclaration(
                f"{where}: parameter {position} {difference}, unlike {interface.__qualname__}.{name}{_signature(mark.function)}"
            )
    if len(declared) != len(written):
        extra = (written if len(written) > len(declared) else declared)[min(len(declared), len(written)) :]
        names = ", ".join(parameter.name for parameter in extra)
        verb = "has" if len(written) > len(declared) else "misses"
        raise BadDeclaration(
            f"{where} {verb} {names}, unlike {interface.__qualname__}.{name}{_signature(mark.function)}"
        )
    wanted_return, found_return = returns_of(mark.function), returns_of(handler)
    if None not in (wanted_return, found_return) and not _is_same(
        "return", mark.function, handler, wanted_return, found_return
    ):
        raise BadDeclaration(
            f"{where} returns {found_return}, but {interface.__qualname__}.{name} declares {wanted_return}"
        )


def _is_same(
    name: str, declared: Callable[..., Any], written: Callable[..., Any], wanted: object, found: object
) -> bool:
    """Whether two annotations mean the same, or may: one with a type variable in it can mean anything."""
    if wanted == found:
        return True
    one, other = hint_of(declared, name), hint_of(written, name)
    # What cannot be evaluated here may mean anything: type checkers know better.
    return UNKNOWN in (one, other) or is_open(one) or is_open(other) or bool(one == other)


def hint_of(function: Callable[..., Any], name: str) -> Any:
    """An annotation as an object; UNKNOWN if it cannot be evaluated here."""
    hint: Any = function.__annotations__[name]
    try:
        # Twice, if it was written in quotes and then taken as text.
        while isinstance(hint, str):
            hint = eval(hint, function.__globals__)  # noqa: S307  # an annotation of the user's own source
    except Exception:  # noqa: BLE001  # whatever it does when it is evaluated
        return UNKNOWN
    return hint


def _difference(wanted: Parameter, found: Parameter) -> str:
    if wanted.name != found.name:
        return f"is {found.name}, not {wanted.name}"
    if wanted.kind is not found.kind:
        return f"({found.name}) is {found.kind.description}, not {wanted.kind.description}"
    if (wanted.default is Parameter.empty) != (found.default is Parameter.empty):
        has = "has no default" if found.default is Parameter.empty else "has a default"
        return f"({found.name}) {has}"
    return ""


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a method without its `self`."""
    parameters = list(signature(function).parameters.values())
    if not parameters or parameters[0].kind not in BY_POSITION:
        raise BadDeclaration(f"{function.__qualname__} takes no self: a message is a method")
    return parameters[1:]


def returns_of(function: Callable[..., Any]) -> str | None:
    """What a function is annotated to return, as it is written; None if nothing is said."""
    annotation = signature(function).return_annotation
    return None if annotation is Signature.empty else _type_name(annotation)


def _type_name(annotation: object) -> str:
    """An annotation as it is written, whether it was evaluated or not."""
    if isinstance(annotation, str):
        return annotation.strip("'\"").removeprefix("typing.")
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    return str(annotation).removeprefix("typing.")


def _signature(function: Callable[..., Any]) -> str:
    whole = signature(function)
    return str(whole.replace(parameters=list(whole.parameters.values())[1:]))
