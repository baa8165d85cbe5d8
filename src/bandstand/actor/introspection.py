"""Inspecting handlers and generic classes: signatures, annotations, empty bodies, type arguments."""

from __future__ import annotations

from collections.abc import Callable
from dis import get_instructions
from inspect import Parameter, Signature, signature
from typing import Any, TypeVar, get_args, get_origin

from bandstand.errors import DeclarationError

__all__ = (
    "POSITIONAL",
    "check_same_signature",
    "evaluated_annotation",
    "has_type_variable",
    "is_empty",
    "parameters_of",
    "return_annotation",
    "type_argument",
)

POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_UNKNOWN = object()
"""The value of an annotation that cannot be evaluated."""


# -- signatures --------------------------------------------------------------------------------------------------------


def parameters_of(function: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a method without `self`.

    Raises:
        DeclarationError: the function has no `self`.
    """
    parameters = list(signature(function).parameters.values())
    if not parameters or parameters[0].kind not in POSITIONAL:
        raise DeclarationError(f"{function.__qualname__} has no self parameter: a message is a method")
    return parameters[1:]


def return_annotation(function: Callable[..., Any]) -> str | None:
    """Return the return annotation as source text; None if there is none."""
    annotation = signature(function).return_annotation
    return None if annotation is Signature.empty else _annotation_text(annotation)


def evaluated_annotation(function: Callable[..., Any], name: str) -> Any:
    """Evaluate the annotation of a parameter, or of `return`.

    The result is a private marker object if the annotation cannot be evaluated.
    """
    annotation: Any = function.__annotations__[name]
    try:
        # An annotation that was quoted in a module with postponed evaluation is a string twice.
        while isinstance(annotation, str):
            annotation = eval(annotation, function.__globals__)  # noqa: S307  # an annotation in the user's own source
    except Exception:  # noqa: BLE001  # evaluation runs user code, which may raise anything
        return _UNKNOWN
    return annotation


def check_same_signature(
    where: str, target: str, declared: Callable[..., Any], handler: Callable[..., Any]
) -> None:
    """Check that a handler has the signature of the method it implements.

    Names, kinds, defaults and annotations of the parameters are compared, and the return annotation. A missing annotation
    matches any; so does one with a type variable, or one that cannot be evaluated at this point.

    Args:
        where: the handler, for error messages: `Counter.add`.
        target: the declared method, for error messages: `Counting.add`.
        declared: the declared method.
        handler: the handler.

    Raises:
        DeclarationError: the signatures differ; the message names the difference.
    """
    wanted_parameters, found_parameters = parameters_of(declared), parameters_of(handler)
    for position, (wanted, found) in enumerate(zip(wanted_parameters, found_parameters, strict=False), 1):
        difference = _difference(wanted, found)
        if not difference and Parameter.empty not in (wanted.annotation, found.annotation):
            wanted_text, found_text = _annotation_text(wanted.annotation), _annotation_text(found.annotation)
            if not _is_same_annotation(wanted.name, declared, handler, wanted_text, found_text):
                difference = f"({found.name}) is {found_text}, not {wanted_text}"
        if difference:
            raise DeclarationError(
                f"{where}: parameter {position} {difference}, unlike {target}{_signature_without_self(declared)}"
            )
    if len(wanted_parameters) != len(found_parameters):
        is_longer = len(found_parameters) > len(wanted_parameters)
        rest = (found_parameters if is_longer else wanted_parameters)[
            min(len(wanted_parameters), len(found_parameters)) :
        ]
        names = f"parameter{'s' if len(rest) > 1 else ''} {', '.join(parameter.name for parameter in rest)}"
        raise DeclarationError(
            f"{where} {'has the extra' if is_longer else 'lacks the'} {names}, unlike {target}{_signature_without_self(declared)}"
        )
    wanted_return, found_return = return_annotation(declared), return_annotation(handler)
    if (
        wanted_return is not None
        and found_return is not None
        and not _is_same_annotation("return", declared, handler, wanted_return, found_return)
    ):
        raise DeclarationError(f"{where} returns {found_return}, but {target} declares {wanted_return}")


def _is_same_annotation(
    name: str, declared: Callable[..., Any], handler: Callable[..., Any], wanted_text: str, found_text: str
) -> bool:
    if wanted_text == found_text:
        return True
    wanted, found = evaluated_annotation(declared, name), evaluated_annotation(handler, name)
    # What cannot be compared here is left to type checkers.
    return (
        _UNKNOWN in (wanted, found)
        or has_type_variable(wanted)
        or has_type_variable(found)
        or bool(wanted == found)
    )


def _difference(wanted: Parameter, found: Parameter) -> str:
    if wanted.name != found.name:
        return f"is {found.name}, not {wanted.name}"
    if wanted.kind is not found.kind:
        return f"({found.name}) is {found.kind.description}, not {wanted.kind.description}"
    if (wanted.default is Parameter.empty) != (found.default is Parameter.empty):
        has = "has no default" if found.default is Parameter.empty else "has a default"
        return f"({found.name}) {has}"
    return ""


def _annotation_text(annotation: object) -> str:
    """Return an annotation as source text, whether it has been evaluated or not."""
    if isinstance(annotation, str):
        return annotation.strip("'\"").removeprefix("typing.")
    if annotation is None or annotation is type(None):
        return "None"
    if isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        return annotation.__qualname__
    return str(annotation).removeprefix("typing.")


def _signature_without_self(function: Callable[..., Any]) -> str:
    whole = signature(function)
    return str(whole.replace(parameters=list(whole.parameters.values())[1:]))


# -- empty bodies ------------------------------------------------------------------------------------------------------
# A body is empty if it compiles to the same instructions as one of these on the running interpreter.


def _pass() -> None: ...


def _not_implemented() -> None:
    raise NotImplementedError


async def _async_pass() -> None: ...


async def _async_not_implemented() -> None:
    raise NotImplementedError


def _instructions(function: Callable[..., Any]) -> tuple[tuple[str, object], ...]:
    return tuple((step.opname, step.argval) for step in get_instructions(function))


_EMPTY_BODIES = tuple(
    _instructions(function) for function in (_pass, _not_implemented, _async_pass, _async_not_implemented)
)


def is_empty(function: Callable[..., Any]) -> bool:
    """Whether a function has no body but `...`, `pass`, a docstring, or `raise NotImplementedError`."""
    return _instructions(function) in _EMPTY_BODIES


# -- type arguments ----------------------------------------------------------------------------------------------------


def type_argument(cls: type, base: type) -> Any:
    """Return what `cls` passes for the only type parameter of its generic base, through any generic classes in between.

    The result is a type, a type variable if `cls` leaves the parameter open, or None if no class passes an argument.
    """
    written = vars(cls).get("__orig_bases__", cls.__bases__)
    origins: list[tuple[Any, Any]] = [(get_origin(each) or each, each) for each in written]
    # An argument passed to `base` directly takes precedence over what other bases pass.
    for origin, written_base in sorted(origins, key=lambda pair: pair[0] is not base):
        if not isinstance(origin, type) or not issubclass(origin, base):
            continue
        arguments = get_args(written_base)
        if origin is base:
            return arguments[0] if arguments else None
        inner = type_argument(origin, base)
        return _substitute(inner, dict(zip(getattr(origin, "__parameters__", ()), arguments, strict=False)))
    return None


def has_type_variable(annotation: Any) -> bool:
    """Whether an annotation contains a type variable."""
    return isinstance(annotation, TypeVar) or bool(getattr(annotation, "__parameters__", ()))


def _substitute(annotation: Any, arguments: dict[Any, Any]) -> Any:
    if isinstance(annotation, TypeVar):
        return arguments.get(annotation, annotation)
    parameters = getattr(annotation, "__parameters__", ())
    if not parameters or isinstance(annotation, type):
        return annotation
    return annotation[tuple(arguments.get(parameter, parameter) for parameter in parameters)]
