"""Plain values: those that travel as they are, because they cannot change after the call and come out with the same type."""

# PyUnicode_IS_ASCII comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import Any, TypeAlias

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if not cython.compiled:
    # Compiled, it is C's own macro, declared in the .pxd.
    PyUnicode_IS_ASCII = str.isascii

Count: TypeAlias = int

SHORT = 1024
MOST_FIELDS = 16
LEAST_INT = -(1 << 63)
MOST_INT = (1 << 64) - 1
# What a value takes besides its text, at most; and a character that is not ASCII.
VALUE_BYTES = 9
WIDEST = 4


def is_plain(value: Any) -> bool:
    """Whether a value travels as it is: one field, or a flat tuple of few."""
    data: object = value
    return is_field(value) if type(data) is not tuple else len(value) <= MOST_FIELDS and are_fields(value)


def are_fields(fields: tuple[Any, ...]) -> bool:
    """Whether all of these do."""
    for value in fields:  # noqa: SIM110  # compiled, a generator would be an object
        if not is_field(value):
            return False
    return True


def is_field(value: Any) -> bool:
    """Whether one that is no tuple does."""
    data: object = value
    kind = type(data)
    if kind is int:
        return bool(LEAST_INT <= value <= MOST_INT)
    if data is None or kind is float or kind is bool:
        return True
    if kind is str:
        return is_short_text(value)
    return kind is bytes and len(value) <= SHORT


def is_short_text(text: str) -> bool:
    """Whether a string is short, and can be written as UTF-8."""
    if len(text) > SHORT:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair: no UTF-8 for it, but pickle knows how.
        return False
    return True


def plain_weight(value: Any) -> Count:
    """How many bytes a plain value takes when it is written, at most."""
    data: object = value
    if type(data) is not tuple:
        return field_weight(value)
    fields: tuple[Any, ...] = value
    weight = VALUE_BYTES
    for field in fields:
        weight += field_weight(field)
    return weight


def field_weight(value: Any) -> Count:
    """The same for one that is no tuple."""
    data: object = value
    kind = type(data)
    if kind is str:
        length = len(value)
        return VALUE_BYTES + (length if PyUnicode_IS_ASCII(value) else WIDEST * length)
    return VALUE_BYTES + len(value) if kind is bytes else VALUE_BYTES
