"""What can be set: each key with what it may be, and by which variable and flag it is set.

The limits of a node and of its clients are read off their classes: what they come to have can be set at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Final, TypeAlias, final

from bandstand.bus import Limits, NodeConfig
from bandstand.errors import InvalidArgument

__all__ = ("KEYS", "SECTIONS", "Key", "Setting")

Setting: TypeAlias = str | int | float | bool | tuple[str, ...] | None
"""A value that can be set; None where nothing is."""


@final
@dataclass(frozen=True, slots=True)
class Key:
    """One thing that can be set."""

    name: str
    """As in the file, with its table: `node.timeout_ms`."""
    kind: type
    """`str`, `int`, `float`, `bool` or `tuple`, for a list of strings."""
    default: Setting
    flag: str = ""
    variable: str = ""

    def read(self, text: str) -> Setting:
        """What somebody has written into a variable, or behind a flag.

        Raises:
            InvalidArgument: it is not of the kind.
        """
        if self.kind is str:
            return text
        if self.kind is tuple:
            return tuple(part.strip() for part in text.split(",") if part.strip())
        if self.kind is bool:
            if text.lower() not in SWITCHES:
                raise InvalidArgument(f"{text!r} is neither true nor false")
            return SWITCHES[text.lower()]
        try:
            return int(text.replace("_", "")) if self.kind is int else float(text)
        except ValueError:
            raise InvalidArgument(f"{text!r} is no number") from None

    def check(self, value: object) -> Setting:
        """What a file says.

        Raises:
            InvalidArgument: it is not of the kind.
        """
        if self.kind is tuple and isinstance(value, list):
            items = [each for each in value if isinstance(each, str)]  # pyright: ignore[reportUnknownVariableType]
            if len(items) == len(value):  # pyright: ignore[reportUnknownArgumentType]
                return tuple(items)
        elif type(value) is self.kind or (self.kind is float and type(value) is int):
            return value  # type: ignore[return-value]  # one of those kinds
        raise InvalidArgument(f"{value!r} is not {WORDS[self.kind]}")


SWITCHES: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}
WORDS: Final[Mapping[type, str]] = {
    str: "a string",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    tuple: "a list of strings",
}
SECTIONS: Final = ("serve", "node", "limits")
"""The tables of a file."""

OWN = (
    Key("address", str, None, "--to", "BANDSTAND_BUS"),
    Key("timeout_ms", int, 30_000, "--timeout", "BANDSTAND_TIMEOUT_MS"),
    Key("token_file", str, "", "--token-file", "BANDSTAND_TOKEN_FILE"),
    Key("serve.module", str, None, "MODULE", "BANDSTAND_SERVE_MODULE"),
    Key("serve.unix", str, None, "--unix", "BANDSTAND_SERVE_UNIX"),
    Key("serve.tcp", str, None, "--tcp", "BANDSTAND_SERVE_TCP"),
    Key("serve.isolate", tuple, (), "--isolate", "BANDSTAND_SERVE_ISOLATE"),
    Key("serve.public", bool, default=False, flag="--public", variable="BANDSTAND_SERVE_PUBLIC"),
)


def _of(section: str, kind: type) -> list[Key]:
    """The keys of a class of limits: those of its fields that are plain values."""
    found: list[Key] = []
    for field in fields(kind):
        value: object = None if field.default is MISSING else field.default
        if isinstance(value, (bool, int, float, str)):
            variable = f"BANDSTAND_{section}_{field.name}".upper()
            found.append(Key(f"{section}.{field.name}", type(value), value, "--set", variable))
    return found


KEYS: Final[Mapping[str, Key]] = {
    key.name: key for key in (*OWN, *_of("node", NodeConfig), *_of("limits", Limits))
}
"""Everything that can be set, by its name."""
