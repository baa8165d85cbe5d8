"""From type annotations to the finite set of messages that they declare.

A capability declares with types what it handles and sends. The `(kind, type)` pairs must be known before the node starts: the
router's index and the description for clients are built from them. A type that leaves one of the two open, such as `str` instead of
a `Literal`, is an error that names the field.

Messages are declared in two ways: with the classes of `messages`, or with an envelope class that has the fields `kind`, `type`, `data`
and optionally `metadata` (a Struct, a dataclass, a TypedDict or a pydantic model). The runtime decodes the data alone; an
`EnvelopeBuilder` wraps it in the envelope for the handler.
"""

from __future__ import annotations

import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, cast

import msgspec
from msgspec import Struct, structs

from bandstand.bus.contracts.messages import TYPE_NAME, Message, Query, Retry, TypedMessage, TypedRequest
from bandstand.bus.contracts.pydantic_models import is_model, model_error, read_model
from bandstand.bus.frame import KINDS, Kind, Metadata
from bandstand.errors import ContractError, ContractViolationError, InvalidMessageError
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = (
    "UNDECLARED",
    "UNRESOLVED",
    "EnvelopeBuilder",
    "MessageDeclaration",
    "Undeclared",
    "declared_messages",
    "description_of",
    "is_message_annotation",
    "is_none",
    "members_of",
    "message_parts",
    "name_of",
)


# -- messages ----------------------------------------------------------------------------------------------------------


class Undeclared(Enum):
    """The type of `UNDECLARED`."""

    UNDECLARED = "undeclared"


UNDECLARED: Final = Undeclared.UNDECLARED
"""Stands for a reply type that a message class does not declare. (None declares an empty reply.)"""


@dataclasses.dataclass(frozen=True, slots=True)
class MessageDeclaration:
    """One kind and type of message that an annotation declares."""

    kind: Kind
    type: str
    # Any, here and below: an annotation may be any object.
    payload: Any
    """The type of its data."""
    envelope: EnvelopeBuilder | None
    """Builds its envelope, if it was declared with an envelope class."""
    reply: Any
    """The type of the reply; `UNDECLARED` if the class does not declare one."""
    description: str
    """The docstring of the class."""
    retry: Retry | None = None
    """The retry policy; None for no retries."""
    is_remembered: bool = True
    """Whether a repeated request gets the first answer."""
    is_retry_safe: bool = False
    """Whether it may be handled again if the node has died meanwhile."""


def declared_messages(annotation: Any, where: str) -> tuple[MessageDeclaration, ...]:
    """Return all messages that an annotation declares.

    Args:
        annotation: a message class, an envelope class, or a union of such classes.
        where: the place of the annotation, for error messages.

    Raises:
        ContractError: the annotation is something else, or its messages are not a finite set; names the class and the field.
    """
    found: dict[tuple[Kind, str], MessageDeclaration] = {}
    for member in members_of(annotation):
        for message in _messages_of_class(member, where):
            first = found.setdefault((message.kind, message.type), message)
            if first is not message:
                raise ContractError(
                    f"{where}: {message.kind} {message.type} is declared twice, by {name_of(first.payload)} and by "
                    f"{name_of(message.payload)}: remove one of them"
                )
    return tuple(found.values())


def is_message_annotation(annotation: Any) -> bool:
    """Return whether a parameter with this annotation is meant to take messages, even if they are declared incorrectly."""
    return any(_is_message_class(member) for member in members_of(annotation))


def message_parts(value: object) -> tuple[Kind, str, object]:
    """Return the kind, type and data of a message that a capability sends.

    Raises:
        ContractViolationError: the value is not a message.
    """
    if isinstance(value, TypedMessage):
        if value.message_kind is None or not value.message_type:
            raise ContractViolationError(
                f"class {type(value).__name__} has no type: derive a class from it with type='Word.Word'"
            )
        return value.message_kind, value.message_type, value
    parts = cast("Mapping[str, object]", value) if isinstance(value, dict) else _parts_of(value)
    kind, type_name = _plain(parts.get("kind")), _plain(parts.get("type"))
    if kind not in KINDS or not isinstance(type_name, str) or not type_name:
        shown = safe_repr(parts if isinstance(value, dict) else value, _LONGEST_SHOWN)
        raise ContractViolationError(
            f"{shown} is not a message: send an instance of a message class, of a class with kind, type and data, or a Message"
        )
    return kind, type_name, parts.get("data")


_LONGEST_SHOWN: Final = 200


def _parts_of(value: object) -> Mapping[str, object]:
    tag = _tag_of(type(value))
    parts = {name: getattr(value, name, None) for name in ("kind", "type", "data")}
    return parts if tag is None else parts | {"type": tag}


def _is_message_class(member: Any) -> bool:
    origin = typing.get_origin(member) or member
    if isinstance(origin, type) and issubclass(origin, (TypedMessage, Message)):
        return True
    try:
        fields = fields_of(member)
    except UNRESOLVED:
        return False
    has_type = "type" in fields or _tag_of(member) is not None
    return has_type and ("kind" in fields or "data" in fields)


def _messages_of_class(member: Any, where: str) -> list[MessageDeclaration]:
    origin = typing.get_origin(member) or member
    if isinstance(origin, type) and issubclass(origin, TypedMessage):
        return [_typed_message(member, origin, where)]
    try:
        fields = fields_of(member)
    except UNRESOLVED as error:
        raise ContractError(
            f"{where}: {name_of(member)}: an annotation of its fields cannot be resolved: {safe_str(error)}"
        ) from error
    if not fields:
        raise ContractError(
            f"{where}: {name_of(member)} is not a message class: derive it from Command, Query, Event or Failure, or give "
            f"it the fields kind, type and data"
        )
    return _enveloped_messages(member, fields, f"{where}: {name_of(member)}")


def _typed_message(member: Any, origin: type[TypedMessage], where: str) -> MessageDeclaration:
    kind, type_name = origin.message_kind, origin.message_type
    if kind is None or not type_name:
        raise ContractError(
            f"{where}: class {origin.__name__} has no type: write class {origin.__name__}(..., type='Word.Word')"
        )
    try:
        reply = _reply_of(member)
    except UNRESOLVED as error:
        raise ContractError(
            f"{where}: class {origin.__name__}: the type of its reply cannot be resolved: {safe_str(error)}"
        ) from error
    return MessageDeclaration(
        kind,
        type_name,
        member,
        None,
        reply,
        description_of(origin),
        origin.message_retry,
        origin.is_message_remembered,
        origin.is_message_retry_safe,
    )


def _enveloped_messages(member: Any, fields: Mapping[str, Any], where: str) -> list[MessageDeclaration]:
    tag = _tag_of(member)
    for name in ("kind", "type"):
        if name not in fields and not (name == "type" and tag is not None):
            raise ContractError(f"{where}: the field {name!r} is missing: add it, as a Literal")
    kinds = _values(fields["kind"], f"{where}: the field 'kind'")
    type_names = {str(tag): tag} if tag is not None else _values(fields["type"], f"{where}: the field 'type'")
    for kind in kinds:
        if kind not in KINDS:
            raise ContractError(
                f"{where}: the field 'kind' allows {safe_repr(kind)}: use one of {', '.join(KINDS)}"
            )
    for type_name in type_names:
        if not TYPE_NAME.fullmatch(type_name):
            raise ContractError(
                f"{where}: the field 'type' allows {safe_repr(type_name)}: use words separated by dots, as in 'Memory.Set'"
            )
    for name in sorted(required_fields(member).difference(ENVELOPE_FIELDS)):
        raise ContractError(
            f"{where}: the field {name!r} is not part of a message: move it into the data, or give it a default"
        )
    envelope = EnvelopeBuilder(member, kinds | type_names)
    payload = fields.get("data")
    _check_model(member, where)
    description = description_of(typing.get_origin(member) or member)
    return [
        MessageDeclaration(
            cast("Kind", kind),
            type_name,
            payload,
            envelope,
            UNDECLARED,
            description,
            is_remembered=kind != Query.message_kind,
        )
        for kind in kinds
        for type_name in type_names
    ]


def _check_model(member: Any, where: str) -> None:
    """Refuse constraints on the envelope's `data` field: the codec of the data does not see them."""
    data = getattr(member, "model_fields", {}).get("data")
    if data is not None and data.metadata:
        raise ContractError(
            f"{where}: the field 'data' has constraints: write a model for the data, and put the constraints there"
        )


def _values(annotation: Any, where: str) -> dict[str, Any]:
    found = literals_of(annotation)
    if not found:
        raise ContractError(
            f"{where} is {name_of(annotation)}, which allows any value: the messages of a capability must be a finite set, so "
            f"write Literal[...] with every possible value"
        )
    values = {_plain(each): each for each in found}
    for value in values:
        if not isinstance(value, str):
            raise ContractError(f"{where} allows {safe_repr(value)}, which is not a string")
    return cast("dict[str, Any]", values)


def _reply_of(kind: Any) -> Any:
    """Return the type argument of the request that a class derives from, also through generic classes in between."""
    origin = cast("type[object]", typing.get_origin(kind) or kind)
    arguments = type_arguments(kind)
    if origin is TypedRequest:
        reply = next(iter(arguments.values()), UNDECLARED)
        return UNDECLARED if isinstance(reply, typing.TypeVar) else None if is_none(reply) else reply
    bases = cast("tuple[Any, ...]", vars(origin).get("__orig_bases__", origin.__bases__))
    for base in bases:
        parent: Any = typing.get_origin(base) or base
        if isinstance(parent, type) and issubclass(parent, TypedRequest):
            inner = tuple(_resolve(substitute(each, arguments), origin) for each in typing.get_args(base))
            return _reply_of(cast("Any", parent)[inner] if inner else parent)
    return UNDECLARED


def _resolve(annotation: Any, kind: type[object]) -> Any:
    # A name in quotes is resolved in the module that contains it.
    holder = types.SimpleNamespace(__annotations__={"reply": annotation})
    scope = vars(sys.modules[kind.__module__])
    return typing.get_type_hints(holder, globalns=scope, include_extras=True)["reply"]


# -- envelopes ---------------------------------------------------------------------------------------------------------

ENVELOPE_FIELDS: Final = ("kind", "type", "data", "metadata")


def _plain(value: object) -> object:
    """Return a value as it is on the wire: a member of an Enum becomes its value."""
    return value.value if isinstance(value, Enum) else value


def _tag_of(kind: object) -> object:
    """Return the tag of a Struct whose tag field is `type`; None if there is none."""
    config = getattr(typing.get_origin(kind) or kind, "__struct_config__", None)
    return config.tag if config is not None and config.tag_field == "type" else None


class EnvelopeBuilder:
    """Builds instances of one envelope class.

    Args:
        kind: the class.
        members: the class's values for kinds and types, by their form on the wire: they may be members of an Enum.
    """

    __slots__ = ("_class", "_fields", "_members", "_metadata_type", "_tag")

    # Any: users write envelope classes, their fields and their data.
    def __init__(self, kind: Any, members: Mapping[str, Any]) -> None:
        self._class = cast("Callable[..., object]", typing.get_origin(kind) or kind)
        self._fields = fields_of(kind)
        self._tag = _tag_of(kind)
        self._members = members
        wanted = self._fields.get("metadata")
        takes_metadata = wanted is None or any(each in {Metadata, Any, object} for each in members_of(wanted))
        self._metadata_type = None if takes_metadata else unwrap(wanted)

    def build(self, kind: Kind, type: str, data: object, metadata: Metadata) -> object:  # noqa: A002  # its name on the wire
        """Build the envelope that a handler takes.

        Raises:
            InvalidMessageError: the class rejects the values.
        """
        fields = self._fields
        parts: dict[str, object] = {"kind": self._members.get(kind, kind)}
        if self._tag is None:
            parts["type"] = self._members.get(type, type)
        if "data" in fields:
            parts["data"] = data
        try:
            if "metadata" in fields:
                parts["metadata"] = self._convert(metadata)
            return self._class(**parts)
        except Exception as error:
            # The class's own validation may raise anything.
            problem = model_error(error)
            raise InvalidMessageError.of(
                f"{self._class.__name__} rejects this {type}: {problem}", f"${problem.path}"
            ) from error

    def _convert(self, metadata: Metadata) -> object:
        if self._metadata_type is None:
            return metadata
        values = msgspec.to_builtins(metadata)
        return msgspec.convert(values, self._metadata_type, dec_hook=read_model)


# -- annotations -------------------------------------------------------------------------------------------------------

UNRESOLVED: Final = (NameError, AttributeError, TypeError, SyntaxError)
"""What resolving an annotation raises if it is a string that names nothing, or is not an expression."""


def unwrap(annotation: Any) -> Any:
    """Remove `Annotated`, `Required` and the like from an annotation, and resolve type aliases."""
    while True:
        origin = typing.get_origin(annotation)
        if origin in {typing.Annotated, typing.Required, typing.NotRequired, typing.Final}:
            annotation = typing.get_args(annotation)[0]
        elif type(annotation).__name__ == "TypeAliasType":
            # Compared by name: Python 3.12 and typing_extensions each have a class of this name.
            annotation = annotation.__value__
        else:
            return annotation


def members_of(annotation: Any) -> tuple[Any, ...]:
    """Return the members of a union, including nested unions, each once; the annotation itself if it is not a union."""
    inner = unwrap(annotation)
    if inner is types.NoneType:
        return (None,)
    if typing.get_origin(inner) not in {typing.Union, types.UnionType}:
        return (inner,)
    found = (member for each in typing.get_args(inner) for member in members_of(each))
    return tuple(dict.fromkeys(found))


def literals_of(annotation: Any) -> tuple[Any, ...] | None:
    """Return all values that an annotation allows, if it consists of literals and Enums; None otherwise."""
    found: list[Any] = []
    for member in members_of(annotation):
        if typing.get_origin(member) is typing.Literal:
            found += typing.get_args(member)
        elif isinstance(member, type) and issubclass(member, Enum):
            found += member
        else:
            return None
    return tuple(found)


def fields_of(kind: Any) -> Mapping[str, Any]:
    """Return the annotations of a class's fields by name; empty if the class declares no fields.

    Raises:
        UNRESOLVED: an annotation cannot be resolved.
    """
    origin = typing.get_origin(kind) or kind
    if not _is_record(origin):
        return {}
    arguments = type_arguments(kind)
    hints = typing.get_type_hints(origin, include_extras=True)
    return {
        name: substitute(hint, arguments)
        for name, hint in hints.items()
        if typing.ClassVar not in {hint, typing.get_origin(hint)} and not name.startswith("_")
    }


def _is_record(kind: Any) -> bool:
    """Return whether something is a class with fields: a Struct, a dataclass, a TypedDict or a pydantic model."""
    if not isinstance(kind, type):
        return False
    made = cast("type[object]", kind)
    return (
        issubclass(made, Struct)
        or dataclasses.is_dataclass(made)
        or typing.is_typeddict(made)
        or is_model(made)
    )


def required_fields(kind: Any) -> frozenset[str]:
    """Return the names of the fields that have no default."""
    origin = typing.get_origin(kind) or kind
    if issubclass(origin, Struct):
        return frozenset(each.name for each in structs.fields(origin) if each.required)
    if dataclasses.is_dataclass(origin):
        return frozenset(
            each.name
            for each in dataclasses.fields(origin)
            if each.init and each.default is each.default_factory is dataclasses.MISSING
        )
    if typing.is_typeddict(origin):
        hints = fields_of(origin)
        # `__required_keys__` does not see a NotRequired that was written as a string.
        return frozenset(
            name
            for name in origin.__required_keys__
            if typing.get_origin(hints[name]) is not typing.NotRequired
        )
    return frozenset(name for name, each in origin.model_fields.items() if each.is_required())


def substitute(annotation: Any, arguments: Mapping[Any, Any]) -> Any:
    """Replace the type variables of an annotation by their arguments."""
    if isinstance(annotation, typing.TypeVar):
        return arguments.get(annotation, annotation)
    if not arguments or isinstance(annotation, type):
        return cast("Any", annotation)
    variables: tuple[Any, ...] = getattr(annotation, "__parameters__", ())
    return annotation[tuple(arguments.get(each, each) for each in variables)] if variables else annotation


def type_arguments(kind: Any) -> Mapping[Any, Any]:
    """Return the type arguments of a generic class, by type variable."""
    origin = typing.get_origin(kind)
    return dict(zip(getattr(origin, "__parameters__", ()), typing.get_args(kind), strict=False))


def is_none(annotation: Any) -> bool:
    """Return whether an annotation is None."""
    return annotation is None or annotation is types.NoneType


def name_of(annotation: Any) -> str:
    """Return an annotation as written in source code."""
    return annotation.__name__ if isinstance(annotation, type) else str(annotation).removeprefix("typing.")


def description_of(thing: Any) -> str:
    """Return the docstring of a class or function; empty if it is inherited, or generated by `dataclass`."""
    text = vars(thing).get("__doc__") if isinstance(thing, type) else getattr(thing, "__doc__", None)
    if not isinstance(text, str) or (
        dataclasses.is_dataclass(thing) and text.startswith(f"{name_of(thing)}(")
    ):
        return ""
    return inspect.cleandoc(text)
