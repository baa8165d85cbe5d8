"""Reading a class: from its marks to its methods, and from those to its handle class.

Everything that can be wrong with a class of actors is found here, when the class is made, and said with the names of class
and method: nothing is left to find out at the first message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, iscoroutinefunction, isfunction, signature
from typing import Any

from bandstand.errors import BadDeclaration
from bandstand.service.faces import Ask, Tell
from bandstand.service.hot.handle import Handle
from bandstand.service.hot.method import Method
from bandstand.service.hot.port import Port
from bandstand.service.marks import Mark
from bandstand.service.numbers import NAMED, NOTHING, ONE, SEVERAL

__all__ = ("Schema", "make_port", "read_class", "read_interface")

BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Schema:
    """What a class of actors can be sent: its methods by name, and its messages by class."""

    name: str
    ports: Mapping[str, Port]
    messages: dict[type, Port]
    """Also what was found out about classes that derive from one of them."""
    handle: type[Handle]


def read_class(cls: type, reserved: Iterable[str], plain: Mapping[str, Any]) -> Schema:
    """Read a class whose methods carry the marks.

    Args:
        cls: the class.
        reserved: names that no message may have.
        plain: what every handle has besides.
    """
    marks = marks_of(cls)
    _refuse_reserved(cls, marks, reserved)
    _refuse_overridden(cls, marks)
    ports = {name: make_port(cls.__qualname__, name, mark.function, mark) for name, mark in marks.items()}
    return _schema(cls, ports, plain)


def read_interface(cls: type, interface: type, reserved: Iterable[str], plain: Mapping[str, Any]) -> Schema:
    """Read a class that implements an interface, whose methods carry the marks.

    Raises:
        BadDeclaration: it misses a handler, has one that the interface does not know, or one of another shape.
    """
    marks = marks_of(interface)
    if not marks:
        raise BadDeclaration(f"{interface.__qualname__} is no interface: it has no method with a mark")
    _refuse_reserved(interface, marks, reserved)
    for name, mark in marks_of(cls).items():
        known = marks.get(name)
        if known is None:
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is marked as a message, but {interface.__qualname__} has none of that name"
                f"{_hint(name, marks)}: declare it there, or take the mark away"
            )
        if (known.lane, known.is_ask) != (mark.lane, mark.is_ask):
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is {mark!r}, but {interface.__qualname__} declares {known!r}: the interface says "
                f"how it goes"
            )
    ports: dict[str, Port] = {}
    for name, mark in marks.items():
        handler = _handler(cls, interface, name)
        _refuse_shape(cls, interface, name, mark, handler)
        ports[name] = make_port(interface.__qualname__, name, handler, mark, binds=mark.function)
    return _schema(cls, ports, plain)


def marks_of(cls: type) -> dict[str, Mark]:
    """The marked methods of a class, those it inherits first."""
    marks: dict[str, Mark] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Mark):
                marks[name] = value
            elif name in marks:
                # Overridden by something without a mark: `_refuse_overridden` says so.
                del marks[name]
    return marks


def _schema(cls: type, ports: dict[str, Port], plain: Mapping[str, Any]) -> Schema:
    messages: dict[type, Port] = {}
    namespace: dict[str, Any] = {
        "__slots__": (),
        "__module__": cls.__module__,
        "__qualname__": f"{cls.__qualname__}.Handle",
        "__doc__": f"A handle of {cls.__qualname__}.",
        "messages": messages,
        "kind_name": cls.__name__,
        **plain,
        **ports,
    }
    handle = type(f"handle of {cls.__qualname__}", (Handle,), namespace)
    return Schema(cls.__qualname__, ports, messages, handle)


def _refuse_reserved(cls: type, marks: Iterable[str], reserved: Iterable[str]) -> None:
    if taken := sorted(set(marks) & set(reserved)):
        raise BadDeclaration(
            f"{cls.__qualname__}.{taken[0]} is marked as a message, but every actor has a {taken[0]} of its own: give the message "
            f"another name"
        )


def _refuse_overridden(cls: type, marks: Mapping[str, Mark]) -> None:
    """A method that a base declares as a message stays one: else a handle typed as the base would lie."""
    for base in cls.__mro__[1:]:
        for name, value in vars(base).items():
            if isinstance(value, Mark) and name not in marks:
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} overrides {value!r} without a mark: put @{_word(value)} on it"
                )


def _word(mark: Mark) -> str:
    return "ask" if mark.is_ask else mark.lane.name.lower()


def _handler(cls: type, interface: type, name: str) -> Callable[..., Any]:
    for base in cls.__mro__:
        if base is interface or (issubclass(interface, base) and base is not object):
            continue
        value = vars(base).get(name)
        if isinstance(value, Mark):
            return value.function
        if isfunction(value):
            return value
        if value is not None:
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is {value!r}, but {interface.__qualname__} declares a method: make it a plain method"
            )
    functions = [key for base in cls.__mro__ for key, value in vars(base).items() if isfunction(value)]
    raise BadDeclaration(
        f"{cls.__qualname__} has no method {name}, which {interface.__qualname__} declares{_hint(name, functions)}"
    )


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _refuse_shape(cls: type, interface: type, name: str, mark: Mark, handler: Callable[..., Any]) -> None:
    """Compare a handler with its declaration, parameter by parameter."""
    where = f"{cls.__qualname__}.{name}"
    declared, written = _parameters(mark.function), _parameters(handler)
    for position, (wanted, found) in enumerate(zip(declared, written, strict=False), 1):
        difference = _difference(wanted, found)
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
    wanted_return, found_return = _returns(mark.function), _returns(handler)
    if None not in (wanted_return, found_return) and wanted_return != found_return:
        raise BadDeclaration(
            f"{where} returns {found_return}, but {interface.__qualname__}.{name} declares {wanted_return}"
        )


def _difference(wanted: Parameter, found: Parameter) -> str:
    if wanted.name != found.name:
        return f"is {found.name}, not {wanted.name}"
    if wanted.kind is not found.kind:
        return f"({found.name}) is {found.kind.description}, not {wanted.kind.description}"
    if (wanted.default is Parameter.empty) != (found.default is Parameter.empty):
        has = "has no default" if found.default is Parameter.empty else "has a default"
        return f"({found.name}) {has}"
    if Parameter.empty not in (wanted.annotation, found.annotation) and _type_name(
        wanted.annotation
    ) != _type_name(found.annotation):
        return f"({found.name}) is of {_type_name(found.annotation)}, not of {_type_name(wanted.annotation)}"
    return ""


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    """The parameters of a method without its `self`."""
    parameters = list(signature(function).parameters.values())
    if not parameters or parameters[0].kind not in BY_POSITION:
        raise BadDeclaration(f"{function.__qualname__} takes no self: a message is a method")
    return parameters[1:]


def _returns(function: Callable[..., Any]) -> str | None:
    annotation = signature(function).return_annotation
    return None if annotation is Signature.empty else _type_name(annotation)


def _type_name(annotation: object) -> str:
    """An annotation as it is written, whether it was evaluated or not."""
    if isinstance(annotation, str):
        return annotation
    if annotation is None or annotation is type(None):
        return "None"
    return (
        annotation.__qualname__
        if isinstance(annotation, type) and not hasattr(annotation, "__args__")
        else str(annotation)
    )


def _signature(function: Callable[..., Any]) -> str:
    whole = signature(function)
    return str(whole.replace(parameters=list(whole.parameters.values())[1:]))


def make_port(
    owner: str,
    name: str,
    function: Callable[..., Any],
    mark: Mark,
    *,
    binds: Callable[..., Any] | None = None,
) -> Port:
    """The port of one method; `binds` is whose signature callers see, if not the function's own."""
    if not mark.is_ask and (returned := _returns(function)) not in (None, "None", "NoReturn", "Never"):
        raise BadDeclaration(
            f"{owner}.{name} is one-way but is to return {returned}: nobody would get it; mark it with @ask"
        )
    parameters = _parameters(function if binds is None else binds)
    shape, arity, binder = _binder(name, parameters)
    method = Method(
        owner,
        name,
        function,
        mark.lane.value,
        shape,
        arity,
        mark.is_ask,
        iscoroutinefunction(function),
        mark.raises,
    )
    return Port(method, binder, Ask if mark.is_ask else Tell)


def _binder(name: str, parameters: list[Parameter]) -> tuple[int, int, Callable[..., Any]]:
    """The shape of a method's messages, how many arguments by position make one, and the function that binds any others.

    The binder has the very signature of the method, so Python itself checks the arguments, fills in defaults, and words the
    TypeError. It is written out and compiled, as `dataclasses` and `namedtuple` do with theirs.
    """
    names = [parameter.name for parameter in parameters]
    if all(parameter.kind in BY_POSITION for parameter in parameters):
        shape = (NOTHING, ONE)[len(names)] if len(names) < 2 else SEVERAL
        arity = len(names)
        data = "None" if not names else names[0] if len(names) == 1 else f"({', '.join(names)})"
    else:
        shape, arity = NAMED, -1
        positional = [f"{p.name}, " for p in parameters if p.kind in BY_POSITION]
        positional += [f"*{p.name}, " for p in parameters if p.kind is Parameter.VAR_POSITIONAL]
        named = [f"'{p.name}': {p.name}, " for p in parameters if p.kind is Parameter.KEYWORD_ONLY]
        named += [f"**{p.name}, " for p in parameters if p.kind is Parameter.VAR_KEYWORD]
        data = f"(({''.join(positional)}), {{{''.join(named)}}})"
    defaults = {f"_default_{p.name}": p.default for p in parameters if p.default is not Parameter.empty}
    bare = [
        p.replace(
            annotation=Parameter.empty,
            default=Parameter.empty if p.default is Parameter.empty else _Verbatim(f"_default_{p.name}"),
        )
        for p in parameters
    ]
    source = f"def {name}{Signature(bare)}:\n    return {data}\n"
    namespace: dict[str, Any] = dict(defaults)
    exec(source, namespace)  # noqa: S102  # names and shape come from a function's own signature
    binder: Callable[..., Any] = namespace[name]
    return shape, arity, binder


class _Verbatim:
    """Writes itself as it is in a signature's text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text
