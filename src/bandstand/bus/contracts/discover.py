"""From types to the finite set of messages that they stand for.

What a capability takes and says is declared with types. Which `(kind, type)` pairs those are must be known before anything runs:
the router's index is built of them, and so is the description that clients read. A type that leaves one of the two open, `str`
instead of a `Literal`, is refused here with the name of the field.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any, Final, cast

from bandstand.bus.contracts.annotations import (
    UNRESOLVED,
    arguments_of,
    description_of,
    fields_of,
    filled,
    is_nothing,
    literals_of,
    members_of,
    name_of,
    required_of,
    shown,
)
from bandstand.bus.contracts.messages import TYPE_NAME, Message, Query, Request, Spoken
from bandstand.bus.contracts.retry import Retry
from bandstand.bus.contracts.shape import PARTS, Shape, plain, tag_of
from bandstand.bus.frame import KINDS, Kind
from bandstand.errors import BadContract, OutboundFault
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("UNSAID", "Branch", "Shape", "Unsaid", "branches_of", "is_message_like", "spoken")


class Unsaid(Enum):
    """What stands for a reply of which a message class says nothing."""

    UNSAID = "unsaid"


UNSAID: Final = Unsaid.UNSAID
"""A message class does not say what the reply is: None would say that there is nothing in it."""


@dataclass(frozen=True, slots=True)
class Branch:
    """One kind and type of message that a type stands for."""

    kind: Kind
    type: str
    # Any, here and below: an annotation may be any object.
    payload: Any
    """The type of its data."""
    shape: Shape | None
    """How its envelope is made, if it was declared with one."""
    reply: Any
    """The type of the reply to it; `UNSAID` if it does not say."""
    description: str
    """The class's own docstring."""
    retry: Retry | None = None
    """When it is tried again."""
    is_remembered: bool = True
    """Whether a repeat gets the first one's answer."""


def branches_of(annotation: Any, where: str) -> tuple[Branch, ...]:
    """All the messages that a type stands for.

    Args:
        annotation: a message class, a class with `kind`, `type` and `data`, or a union of such.
        where: whose it is, for the sentences of errors.

    Raises:
        BadContract: it is no such type, or an open one; names the class and the field.
    """
    found: dict[tuple[Kind, str], Branch] = {}
    for member in members_of(annotation):
        for branch in _branches_of_class(member, where):
            first = found.setdefault((branch.kind, branch.type), branch)
            if first is not branch:
                raise BadContract(
                    f"{where}: {branch.kind} {branch.type} is declared twice, by {name_of(first.payload)} and by "
                    f"{name_of(branch.payload)}: leave one of them out"
                )
    return tuple(found.values())


def is_message_like(annotation: Any) -> bool:
    """Whether a parameter with this annotation is meant for messages: also if they are declared wrongly."""
    return any(_is_message_class(member) for member in members_of(annotation))


def spoken(value: object) -> tuple[Kind, str, object]:
    """The kind, type and data of something that a capability says.

    Raises:
        OutboundFault: it is no message.
    """
    if isinstance(value, Spoken):
        if value.message_kind is None or not value.message_type:
            raise OutboundFault(
                f"class {type(value).__name__} has no type: derive from it with type='Word.Word'"
            )
        return value.message_kind, value.message_type, value
    parts = cast("Mapping[str, object]", value) if isinstance(value, dict) else _parts_of(value)
    kind, type_name = plain(parts.get("kind")), plain(parts.get("type"))
    if kind not in KINDS or not isinstance(type_name, str) or not type_name:
        raise OutboundFault(
            f"{shown(parts) if isinstance(value, dict) else shown(value)} is no message: say an instance of a message class, of a class with kind, type and data, or a Message"
        )
    return kind, type_name, parts.get("data")


def _parts_of(value: object) -> Mapping[str, object]:
    tag = tag_of(type(value))
    parts = {name: getattr(value, name, None) for name in ("kind", "type", "data")}
    return parts if tag is None else parts | {"type": tag}


def _is_message_class(member: Any) -> bool:
    origin = typing.get_origin(member) or member
    if isinstance(origin, type) and issubclass(origin, (Spoken, Message)):
        return True
    try:
        fields = fields_of(member)
    except UNRESOLVED:
        return False
    has_type = "type" in fields or tag_of(member) is not None
    return has_type and ("kind" in fields or "data" in fields)


def _branches_of_class(member: Any, where: str) -> list[Branch]:
    origin = typing.get_origin(member) or member
    if isinstance(origin, type) and issubclass(origin, Spoken):
        return [_branch_of_spoken(member, origin, where)]
    try:
        fields = fields_of(member)
    except UNRESOLVED as error:
        raise BadContract(
            f"{where}: {name_of(member)}: an annotation of its fields cannot be resolved: {safe_str(error)}"
        ) from error
    if not fields:
        raise BadContract(
            f"{where}: {name_of(member)} is no class of messages: derive it from Command, Query, Event or Failure, or give "
            f"it the fields kind, type and data"
        )
    return _branches_of_envelope(member, fields, f"{where}: {name_of(member)}")


def _branch_of_spoken(member: Any, origin: type[Spoken], where: str) -> Branch:
    kind, type_name = origin.message_kind, origin.message_type
    if kind is None or not type_name:
        raise BadContract(
            f"{where}: class {origin.__name__} has no type: write class {origin.__name__}(..., type='Word.Word')"
        )
    try:
        reply = _reply_of(member)
    except UNRESOLVED as error:
        raise BadContract(
            f"{where}: class {origin.__name__}: the type of its reply cannot be resolved: {safe_str(error)}"
        ) from error
    return Branch(
        kind,
        type_name,
        member,
        None,
        reply,
        description_of(origin),
        origin.message_retry,
        origin.is_message_remembered,
    )


def _branches_of_envelope(member: Any, fields: Mapping[str, Any], where: str) -> list[Branch]:
    for name in ("kind", "type"):
        if name not in fields and not (name == "type" and tag_of(member) is not None):
            raise BadContract(f"{where}: the field {name!r} is missing: give it, as a Literal")
    kinds = _values(fields["kind"], f"{where}: the field 'kind'")
    tag = tag_of(member)
    types = {str(tag): tag} if tag is not None else _values(fields["type"], f"{where}: the field 'type'")
    for kind in kinds:
        if kind not in KINDS:
            raise BadContract(
                f"{where}: the field 'kind' allows {safe_repr(kind)}: a kind is one of {', '.join(KINDS)}"
            )
    for type_name in types:
        if not TYPE_NAME.fullmatch(type_name):
            raise BadContract(
                f"{where}: the field 'type' allows {safe_repr(type_name)}: use words with dots between them, as 'Memory.Set'"
            )
    for name in sorted(required_of(member).difference(PARTS)):
        raise BadContract(
            f"{where}: the field {name!r} is none of a message's: put it into the data, or give it a default"
        )
    shape = Shape(member, kinds | types)
    payload = fields.get("data")
    _check_model(member, where)
    text = description_of(typing.get_origin(member) or member)
    return [
        Branch(
            cast("Kind", kind), each, payload, shape, UNSAID, text, is_remembered=kind != Query.message_kind
        )
        for kind in kinds
        for each in types
    ]


def _check_model(member: Any, where: str) -> None:
    """Refuse rules about the data that stand on the envelope, where the codec of the data cannot see them."""
    data = getattr(member, "model_fields", {}).get("data")
    if data is not None and data.metadata:
        raise BadContract(
            f"{where}: the field 'data' has rules of its own: write a model for the data, with the rules in it"
        )


def _values(annotation: Any, where: str) -> dict[str, Any]:
    found = literals_of(annotation)
    if not found:
        raise BadContract(
            f"{where} is {name_of(annotation)}, which is open: the messages of a capability must be a finite set, so "
            f"write Literal[...] with every value that it can have"
        )
    values = {plain(each): each for each in found}
    for value in values:
        if not isinstance(value, str):
            raise BadContract(f"{where} allows {safe_repr(value)}, which is no string")
    return cast("dict[str, Any]", values)


def _reply_of(kind: Any) -> Any:
    """What stands in the brackets of the request that a class derives from, through generic classes between them too."""
    origin = cast("type[object]", typing.get_origin(kind) or kind)
    given = arguments_of(kind)
    if origin is Request:
        said = next(iter(given.values()), UNSAID)
        return UNSAID if isinstance(said, typing.TypeVar) else None if is_nothing(said) else said
    bases = cast("tuple[Any, ...]", vars(origin).get("__orig_bases__", origin.__bases__))
    for base in bases:
        above: Any = typing.get_origin(base) or base
        if isinstance(above, type) and issubclass(above, Request):
            inner = tuple(_resolved(filled(each, given), origin) for each in typing.get_args(base))
            return _reply_of(cast("Any", above)[inner] if inner else above)
    return UNSAID


def _resolved(annotation: Any, kind: type[object]) -> Any:
    # Names in quotes stand for what they mean in the module that wrote them.
    holder = SimpleNamespace(__annotations__={"reply": annotation})
    scope = vars(sys.modules[kind.__module__])
    return typing.get_type_hints(holder, globalns=scope, include_extras=True)["reply"]
