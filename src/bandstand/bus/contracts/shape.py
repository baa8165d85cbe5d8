"""Classes with the shape of a whole message: `kind`, `type`, `data`, and `metadata` if they like.

Whoever declares messages whole writes the envelope out, as a Struct, a dataclass, a TypedDict or a
pydantic model. The runtime decodes the data alone. A `Shape` puts it back into its envelope for the handler, and takes it out of
the envelope that the handler gives back.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any, Final, cast

import msgspec

from bandstand.bus.contracts.annotations import bare, fields_of, members_of
from bandstand.bus.contracts.foreign import problem_of, read_model
from bandstand.bus.frame import Kind, Metadata
from bandstand.errors import BadMessage

__all__ = ("PARTS", "Shape", "plain", "tag_of")

PARTS: Final = ("kind", "type", "data", "metadata")
"""What an envelope has."""


def plain(value: object) -> object:
    """A value as it is on the wire: a member of an Enum is its value."""
    return value.value if isinstance(value, Enum) else value


def tag_of(kind: object) -> object:
    """The tag of a Struct that stands under `type`; None if it has none there."""
    config = getattr(typing.get_origin(kind) or kind, "__struct_config__", None)
    return config.tag if config is not None and config.tag_field == "type" else None


class Shape:
    """How to put a message into a class of envelopes, and take it out again.

    Args:
        kind: the class.
        members: the class's own values for kinds and types, where they are members of an Enum.
    """

    __slots__ = ("_fields", "_make", "_members", "_metadata", "_tag", "kind")

    # Any, here and below: a class of envelopes, its fields and its data are of the user's making.
    def __init__(self, kind: Any, members: Mapping[str, Any]) -> None:
        self.kind: Final = kind
        self._make = cast("Callable[..., object]", typing.get_origin(kind) or kind)
        self._fields = fields_of(kind)
        self._tag = tag_of(kind)
        self._members = members
        wanted = self._fields.get("metadata")
        takes_metadata = wanted is None or any(each in {Metadata, Any, object} for each in members_of(wanted))
        self._metadata = None if takes_metadata else bare(wanted)

    def build(self, kind: Kind, type: str, data: object, metadata: Metadata) -> object:  # noqa: A002  # its name on the wire
        """Make the envelope that a handler takes.

        Raises:
            BadMessage: the class itself refuses what is in it.
        """
        fields = self._fields
        parts: dict[str, object] = {"kind": self._members.get(kind, kind)}
        if self._tag is None:
            parts["type"] = self._members.get(type, type)
        if "data" in fields:
            parts["data"] = data
        try:
            if "metadata" in fields:
                parts["metadata"] = self._fit(metadata)
            return self._make(**parts)
        except Exception as error:
            # A class's own check may raise anything over what a stranger has sent.
            problem = problem_of(error)
            raise BadMessage.of(
                f"{self._make.__name__} does not take this {type}: {problem}", f"${problem.path}"
            ) from error

    def take(self, value: object) -> tuple[Kind, str, object] | None:
        """The kind, type and data of an envelope; None if the value is none of this class."""
        if typing.is_typeddict(self._make):
            if not isinstance(value, dict):
                return None
            found = cast("dict[str, object]", value)
            kind, type_name, data = found.get("kind"), found.get("type"), found.get("data")
        elif isinstance(value, cast("type", self._make)):
            kind, data = getattr(value, "kind", None), getattr(value, "data", None)
            type_name = self._tag if self._tag is not None else getattr(value, "type", None)
        else:
            return None
        return cast("Kind", plain(kind)), cast("str", plain(type_name)), data

    def _fit(self, metadata: Metadata) -> object:
        if self._metadata is None:
            return metadata
        values = msgspec.to_builtins(metadata)
        return msgspec.convert(values, self._metadata, dec_hook=read_model)
