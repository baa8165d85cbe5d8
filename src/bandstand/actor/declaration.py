"""Reading a class: from its marks to its methods, and from those to its handle class.

Everything that can be wrong with a class of actors is found here, when the class is made, and said with the names of class
and method: nothing is left to find out at the first message.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from inspect import Parameter, Signature, iscoroutinefunction, isfunction, signature, unwrap
from typing import Any

from bandstand.actor.decorators import Mark
from bandstand.actor.enums import NAMED, NOTHING, ONE, SEVERAL
from bandstand.actor.faces import Ask, Tell
from bandstand.actor.hot.handle import Handle
from bandstand.actor.hot.method import Method
from bandstand.actor.hot.port import Port
from bandstand.actor.introspection import BY_POSITION, parameters_of, refuse_shape, returns_of
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr

__all__ = ("ON", "Schema", "make_port", "marks_of", "read_class", "read_interface")

# Where a function keeps for which classes of messages it is.
ON = "__bandstand_on__"
# What every handle has besides its messages.
HANDLES_OWN = ("ended", "kill", "me", "stop")


@dataclass(frozen=True, slots=True)
class Schema:
    """What a class of actors can be sent: its methods by name, and its messages by class."""

    name: str
    ports: Mapping[str, Port]
    messages: dict[type, Port]
    """Also what was found out about classes that derive from one of them."""
    handle: type[Handle]


def read_class(
    cls: type,
    reserved: Iterable[str],
    plain: Mapping[str, Any],
    *,
    takes_messages: bool = False,
    handlers: Mapping[str, Callable[..., Any]] | None = None,
    answers: tuple[type[BaseException], ...] = (),
) -> Schema:
    """Read a class whose methods carry the marks.

    Args:
        cls: the class.
        reserved: names that no message may have.
        plain: what every handle has besides.
        takes_messages: whether methods may be for classes of messages.
        handlers: what is called for a message, if it is not the marked method itself.
        answers: what every ask may raise as its answer, besides what its mark says.
    """
    marks = marks_of(cls)
    for name, value in vars(cls).items():
        if not takes_messages and hasattr(value, ON):
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is marked with @on: derive from MessageActor[...], whose handles can send messages"
            )
    _refuse_names(cls, marks, reserved)
    _refuse_overridden(cls, marks)
    called: Mapping[str, Callable[..., Any]] = {} if handlers is None else handlers
    ports = {
        name: make_port(
            cls.__qualname__,
            name,
            called.get(name, mark.function),
            mark,
            binds=mark.function,
            answers=answers if mark.is_ask else (),
        )
        for name, mark in marks.items()
    }
    return _schema(cls, ports, plain)


def read_interface(cls: type, interface: type, reserved: Iterable[str], plain: Mapping[str, Any]) -> Schema:
    """Read a class that implements an interface, whose methods carry the marks.

    Raises:
        BadDeclaration: it misses a handler, has one that the interface does not know, or one of another shape.
    """
    marks = marks_of(interface)
    if not marks:
        raise BadDeclaration(f"{interface.__qualname__} is no interface: it has no method with a mark")
    _refuse_names(interface, marks, reserved)
    for name, mark in marks_of(cls).items():
        known = marks.get(name)
        if known is None:
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is marked as a message, but {interface.__qualname__} has none of that name"
                f"{_hint(name, marks)}: declare it there, or take the mark away"
            )
        if known.manner != mark.manner:
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is {safe_repr(mark)}, but {interface.__qualname__} declares {safe_repr(known)}: the interface says "
                f"how it goes"
            )
    ports: dict[str, Port] = {}
    for name, mark in marks.items():
        handler = _handler(cls, interface, name)
        refuse_shape(cls, interface, name, mark, handler)
        ports[name] = make_port(interface.__qualname__, name, handler, mark, binds=mark.function)
    return _schema(cls, ports, plain)


def _names_of(names: list[str]) -> Callable[[Handle], list[str]]:
    def listing(_handle: Handle) -> list[str]:
        return names

    return listing


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
        "_bs_messages": messages,
        "_bs_ports": ports,
        # What can be used, and not what is only explained.
        "__dir__": _names_of(sorted({*ports, *HANDLES_OWN})),
        "_bs_kind": cls.__name__,
        "_bs_class": cls,
        **plain,
        **ports,
    }
    handle = type(f"handle of {cls.__qualname__}", (Handle,), namespace)
    return Schema(cls.__qualname__, ports, messages, handle)


def _refuse_names(cls: type, marks: Mapping[str, Mark], reserved: Iterable[str]) -> None:
    """Refuse names that are taken, and marks that are hidden under something else."""
    if taken := sorted(set(marks) & set(reserved)):
        raise BadDeclaration(
            f"{cls.__qualname__}.{taken[0]} is marked as a message, but every actor has a {taken[0]} of its own: give the message "
            f"another name"
        )
    for name in marks:
        if name.startswith("__") and name.endswith("__"):
            raise BadDeclaration(f"{cls.__qualname__}.{name} is Python's own, and cannot be a message")
    for name, value in vars(cls).items():
        below = (
            getattr(value, "fget", None) if isinstance(value, property) else getattr(value, "__func__", None)
        )
        if isinstance(below, Mark):
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} has @{below.word} below a @{type(value).__name__}: a message is a plain method"
            )


def _refuse_overridden(cls: type, marks: Mapping[str, Mark]) -> None:
    """A method that a base declares as a message stays one: else a handle typed as the base would lie."""
    for base in cls.__mro__[1:]:
        for name, value in vars(base).items():
            if not isinstance(value, Mark):
                continue
            if name not in marks:
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} overrides {safe_repr(value)} without a mark: put @{value.word} on it"
                )
            if (marks[name].is_ask, marks[name].limit > 0) != (value.is_ask, value.limit > 0):
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} is {safe_repr(marks[name])}, but overrides {safe_repr(value)}: whoever holds a handle of the base "
                    f"would get the other kind"
                )


def _handler(cls: type, interface: type, name: str) -> Callable[..., Any]:
    for base in cls.__mro__:
        if base in interface.__mro__:
            continue
        value = vars(base).get(name)
        if isinstance(value, Mark):
            return value.function
        if isfunction(value):
            return value
        if value is not None:
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} is {safe_repr(value)}, but {interface.__qualname__} declares a method: make it a plain method"
            )
    functions = [key for base in cls.__mro__ for key, value in vars(base).items() if isfunction(value)]
    raise BadDeclaration(
        f"{cls.__qualname__} has no method {name}, which {interface.__qualname__} declares{_hint(name, functions)}"
    )


def _hint(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def make_port(
    owner: str,
    name: str,
    function: Callable[..., Any],
    mark: Mark,
    *,
    binds: Callable[..., Any] | None = None,
    answers: tuple[type[BaseException], ...] = (),
) -> Port:
    """The port of one method; `binds` is whose signature callers see, if not the function's own."""
    if not mark.is_ask and (returned := returns_of(function)) not in (None, "None", "NoReturn", "Never"):
        raise BadDeclaration(
            f"{owner}.{name} is one-way but is to return {returned}: nobody would get it; mark it with @ask"
        )
    parameters_of(function)
    parameters = list(signature(function if binds is None else binds).parameters.values())
    if mark.limit:
        # Its list has a name inside; whoever sends one for it has none.
        parameters = [each.replace(kind=Parameter.POSITIONAL_ONLY) for each in parameters]
    shape, arity, binder = _binder(name, parameters)
    method = Method(
        owner,
        name,
        function,
        mark.lane.value,
        shape,
        arity,
        mark.is_ask,
        # A wrapper that follows the rules tells what it wraps.
        iscoroutinefunction(unwrap(function)),
        (*mark.raises, *answers),
        mark.limit,
        mark.is_reentrant,
    )
    return Port(method, binder, Ask if mark.is_ask else Tell)


def _binder(name: str, parameters: list[Parameter]) -> tuple[int, int, Callable[..., Any]]:
    """The shape of a method's messages, how many arguments by position make one, and the function that binds any others.

    The binder has the very signature of the method, `self` included, so Python itself checks the arguments, fills in defaults,
    and words the TypeError. It is written out and compiled, as `dataclasses` and `namedtuple` do with theirs.
    """
    whole = parameters
    parameters = whole[1:]
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
    defaults = {f"_default_{p.name}": p.default for p in whole if p.default is not Parameter.empty}
    bare = [
        p.replace(
            annotation=Parameter.empty,
            default=Parameter.empty if p.default is Parameter.empty else _Verbatim(f"_default_{p.name}"),
        )
        for p in whole
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
