"""Reading the states of a class of machines: from what their decorators have noted to a table, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import iscoroutinefunction, unwrap
from typing import Any

from bandstand.actor.bodies import is_empty
from bandstand.actor.course import Table
from bandstand.actor.decorators import Mark
from bandstand.actor.introspection import parameters_of, refuse_shape
from bandstand.actor.states import NOTED, Note, State
from bandstand.errors import BadDeclaration
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("Plan", "read_plan")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a class of machines has declared."""

    states: Mapping[str, State]
    table: Table
    handlers: Mapping[tuple[str, str], Callable[..., Any]]
    """By state and message."""
    hooks: Mapping[tuple[str, str], Callable[..., Any]]
    """By state and role: `enter`, `leave`, `timeout`."""
    slow: frozenset[str]
    """Messages of which some handler is a coroutine function."""


def read_plan(cls: type, marks: Mapping[str, Mark]) -> Plan:
    """Read the states of a class.

    Raises:
        BadDeclaration: it contradicts itself; says where.
    """
    states = _states(cls)
    handlers: dict[tuple[str, str], Callable[..., Any]] = {}
    hooks: dict[tuple[str, str], Callable[..., Any]] = {}
    for base in reversed(cls.__mro__):
        taken: dict[tuple[str, str], str] = {}
        notes: list[Note] = vars(base).get(NOTED, [])
        for note in notes:
            if states.get(note.state.name) is not note.state:
                if base is cls:
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{note.function.__name__} is for {note.state!r}, which is no state of that class: it "
                        f"has {', '.join(states)}"
                    )
                # A state of a base that this class has replaced.
                continue
            name = _message(cls, note) if note.role == "on" else note.role
            place = (note.state.name, name)
            if place in taken:
                raise BadDeclaration(
                    f"{cls.__qualname__} has two methods for {name} in state {place[0]}: {taken[place]} and "
                    f"{note.function.__name__}"
                )
            taken[place] = note.function.__name__
            if note.role == "on":
                _refuse_handler(cls, note, name, marks[name])
                handlers[place] = note.function
            else:
                _refuse_hook(cls, note)
                hooks[place] = note.function
    table = _table(cls, states, marks, handlers)
    for name, state in states.items():
        if (state.after_ms is None) != ((name, "timeout") not in hooks):
            raise BadDeclaration(
                f"{cls.__qualname__}.{name} has after_ms without a method for its timeout, or the other way round: it takes both, "
                f"State(after_ms=...) and @{name}.timeout"
            )
    called: list[tuple[str, Callable[..., Any]]] = [(name, mark.function) for name, mark in marks.items()]
    called += [(name, function) for (_, name), function in handlers.items()]
    slow = frozenset(name for name, function in called if iscoroutinefunction(unwrap(function)))
    return Plan(states, table, handlers, hooks, slow)


def _states(cls: type) -> dict[str, State]:
    states: dict[str, State] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, State):
                states[name] = value
            elif name in states:
                raise BadDeclaration(
                    f"{cls.__qualname__}.{name} is a state of its base, and {safe_repr(value)} here: a state stays one"
                )
    if not states:
        raise BadDeclaration(
            f"{cls.__qualname__} is a machine without states: declare one, closed = State(), or derive from Actor"
        )
    if len(initial := [name for name, state in states.items() if state.initial]) > 1:
        raise BadDeclaration(f"{cls.__qualname__} has two initial states: {initial[0]} and {initial[1]}")
    return states


def _table(
    cls: type,
    states: Mapping[str, State],
    marks: Mapping[str, Mark],
    handlers: Mapping[tuple[str, str], Callable[..., Any]],
) -> Table:
    sets: dict[str, set[tuple[str, str]]] = {"postpones": set(), "ignores": set()}
    for name, state in states.items():
        for word, listed in (("postpones", state.postpones), ("ignores", state.ignores)):
            for mark in listed:
                message = _known(cls, f"{cls.__qualname__}.{name} {word}", mark)
                place = (name, message)
                if word == "ignores" and mark.is_ask:
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{name} ignores {message}, which is an ask: somebody would wait for nothing"
                    )
                if word == "postpones" and mark.limit:
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{name} postpones {message}, which takes a list: a list cannot be kept; handle it in that "
                        f"state, or let the message be one"
                    )
                if place in sets["postpones"] or (place in handlers and name in vars(cls)):
                    raise BadDeclaration(
                        f"{cls.__qualname__}.{name} {word} {message}, and something else is said of it too: choose one"
                    )
                sets[word].add(place)
    first = next((name for name, state in states.items() if state.initial), next(iter(states)))
    return Table(
        first,
        frozenset(states),
        frozenset(handlers),
        frozenset(sets["postpones"]),
        frozenset(sets["ignores"]),
        frozenset(name for name, mark in marks.items() if not is_empty(mark.function)),
        {name: state.after_ms for name, state in states.items() if state.after_ms is not None},
    )


def _message(cls: type, note: Note) -> str:
    assert note.mark is not None
    return _known(cls, f"{cls.__qualname__}.{note.function.__name__}, in state {note.state.name},", note.mark)


def _known(cls: type, where: str, mark: Mark) -> str:
    """The name of a message of a class, by its mark: the class's own, or one that it inherits and may have overridden."""
    name = mark.function.__name__
    if not any(vars(base).get(name) is mark for base in cls.__mro__):
        raise BadDeclaration(f"{where} is for {safe_repr(mark)}, which is no message of {cls.__qualname__}")
    return name


def _refuse_handler(cls: type, note: Note, name: str, mark: Mark) -> None:
    try:
        refuse_shape(cls, cls, name, mark, note.function)
    except BadDeclaration as error:
        raise BadDeclaration(
            f"{cls.__qualname__}.{note.function.__name__} is to handle {name} in state {note.state.name}, but is not like it: {safe_str(error)}"
        ) from None


def _refuse_hook(cls: type, note: Note) -> None:
    where = f"{cls.__qualname__}.{note.function.__name__}, @{note.state.name}.{note.role},"
    if parameters_of(note.function):
        raise BadDeclaration(f"{where} takes arguments: it is called with self alone")
    if note.role != "timeout" and iscoroutinefunction(unwrap(note.function)):
        raise BadDeclaration(
            f"{where} is async: a transition takes no time; send a message, or use background()"
        )
