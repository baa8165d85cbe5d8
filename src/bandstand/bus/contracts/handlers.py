"""The handlers of a capability's class: which methods they are, for which messages, and what they answer.

A handler is a public method with one parameter that is annotated with messages. Everything else in the class is its own affair.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator
from dataclasses import dataclass
from inspect import Parameter, isasyncgenfunction, isfunction, isgeneratorfunction, signature
from typing import Any, NoReturn

from bandstand.bus.contracts.annotations import UNRESOLVED, description_of, is_nothing, members_of, name_of
from bandstand.bus.contracts.capability import Capability
from bandstand.bus.contracts.discover import UNSAID, Branch, branches_of, is_message_like
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_str

__all__ = ("Handler", "handlers_of")


POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
LOOSE = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass(frozen=True, slots=True)
class Handler:
    """A method, for one kind and type of message."""

    method: str
    branch: Branch
    # Any: an annotation may be any object.
    reply: Any
    """The type of its reply."""
    description: str


def handlers_of(kind: type[Capability], where: str) -> Iterator[Handler]:
    """The handlers of a class, in the order in which they were first written.

    Raises:
        BadContract: a method contradicts itself, or its message; names it.
    """
    for name in dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base)):
        function = getattr(kind, name, None)
        if name.startswith("_") or hasattr(Capability, name) or not isfunction(function):
            continue
        place = f"{where}: {name}()"
        hints = _hints(function, place)
        parameter = _parameter(function, hints, place)
        branches = branches_of(hints[parameter], place) if parameter else ()
        if branches and (isgeneratorfunction(function) or isasyncgenfunction(function)):
            raise BadContract(f"{place}: a handler returns its reply: it cannot yield")
        if branches and name == "bus":
            raise BadContract(
                f"{place}: bus is what a capability says things by: give the handler another name"
            )
        for branch in branches:
            reply = _reply(branch, hints.get("return", UNSAID), place, is_sole=len(branches) == 1)
            yield Handler(name, branch, reply, description_of(function))


def _hints(function: Any, place: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except UNRESOLVED as error:
        if len(signature(function).parameters) != 2:
            # Whatever it is, it is not called with itself and one message.
            return {}
        raise BadContract(
            f"{place}: an annotation cannot be resolved: {safe_str(error)}. Import the name at run time, not for type checking only; or "
            f"begin the method's name with _ if it is no handler"
        ) from error


def _parameter(function: Any, hints: dict[str, Any], place: str) -> str:
    """The name of the parameter that takes the message; empty if the function takes none."""
    rest = list(signature(function).parameters.values())[1:]
    if not rest or not is_message_like(hints.get(rest[0].name)):
        return ""
    first, *others = rest
    needed = [each.name for each in others if each.default is Parameter.empty and each.kind not in LOOSE]
    if needed or first.kind not in POSITIONAL:
        raise BadContract(
            f"{place}: a handler takes one message, by position, and nothing else: leave out {', '.join(needed) or 'the *'}, or "
            f"begin the method's name with _ if it is no handler"
        )
    return first.name


def _reply(branch: Branch, returns: Any, place: str, *, is_sole: bool) -> Any:
    """What a handler answers: what its message says, and what it says itself, which must agree."""
    if branch.kind == "event":
        if returns is not UNSAID and returns is not NoReturn and not is_nothing(returns):
            raise BadContract(
                f"{place}: returns {name_of(returns)}, but nobody waits for an answer to event {branch.type}: write -> None"
            )
        return None
    if returns is not UNSAID and is_message_like(returns):
        raise BadContract(
            f"{place}: returns the message {name_of(returns)}: return the data of the reply, the runtime makes the message"
        )
    said = branch.reply
    if returns is UNSAID or returns is NoReturn:
        return None if said is UNSAID else said
    if said is UNSAID:
        return returns
    if returns is not Any and not _agree(said, returns, is_sole=is_sole):
        raise BadContract(
            f"{place}: returns {name_of(returns)}, but {name_of(branch.payload)} says that the reply is {name_of(said)}: "
            f"write -> {name_of(said)}, or change the message"
        )
    return said


def _agree(said: Any, returns: Any, *, is_sole: bool) -> bool:
    promised, given = members_of(said), members_of(returns)
    if all(_fits(each, promised) for each in given):
        return True
    # A handler of several messages returns a union, of which each message has its part.
    return not is_sole and all(each in given for each in promised)


def _fits(given: Any, promised: tuple[Any, ...]) -> bool:
    if Any in promised or given in promised:
        return True
    return isinstance(given, type) and any(
        isinstance(each, type) and issubclass(given, each) for each in promised
    )
