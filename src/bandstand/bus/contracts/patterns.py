r"""Regular expressions for values that JSON writes as strings: dates, times, decimals, bytes, and keys of objects.

Each pattern allows exactly what the decoder accepts, including leap years. ECMAScript and Python read the patterns alike: they avoid `\d`,
which in Python matches digits of any script, and they exclude the trailing newline that Python's `$` allows.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, cast

__all__ = (
    "DATE",
    "DATE_TIME",
    "DECIMAL",
    "DURATION",
    "INTEGER_KEY",
    "NUMBER_KEY",
    "TIME",
    "UUID",
    "Schema",
    "add_patterns",
    "bytes_pattern",
    "datetime_schema",
    "decimal_pattern",
    "string_schema",
)

# Any: a JSON Schema is a tree of plain values.
Schema: TypeAlias = dict[str, Any]


def _exactly(pattern: str) -> str:
    return f"^(?:{pattern})$(?!\\n)"


_YEAR = "(?!0000)[0-9]{4}"
_LEAP = "(?!0000)(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
_DATE = (
    f"(?:{_YEAR}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    f"|02-(?:0[1-9]|1[0-9]|2[0-8]))|{_LEAP}-02-29)"
)
_TIME = r"(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?"
_ZONE = "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
_ZONES: Final[dict[bool, str]] = {True: _ZONE, False: ""}

DATE: Final = _exactly(_DATE)
"""A date: `2026-01-31`."""
TIME: Final[dict[bool, str]] = {has_zone: _exactly(f"{_TIME}{zone}") for has_zone, zone in _ZONES.items()}
"""A time of day: with a time zone (True), `12:00:00Z`, and without (False)."""
DATE_TIME: Final[dict[bool, str]] = {
    has_zone: _exactly(f"{_DATE}[Tt ]{_TIME}{zone}") for has_zone, zone in _ZONES.items()
}
"""A date and time: with a time zone (True), `2026-01-31T12:00:00Z`, and without (False)."""
DURATION: Final = _exactly(
    r"[+-]?P(?=[0-9T])(?:[0-9]{1,8}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,5}H)?(?:[0-9]{1,7}M)?(?:[0-9]{1,8}(?:\.[0-9]{1,6})?S)?)?"
)
"""A duration: `P1DT12H30M0.5S`."""
_HEX = "[0-9a-fA-F]"
UUID: Final = _exactly(f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}")
"""A UUID with dashes."""
DECIMAL: Final = _exactly(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
"""A decimal of any size and precision."""

INTEGER_KEY: Final = _exactly("0|-?[1-9][0-9]*")
"""An integer as a key of an object."""
NUMBER_KEY: Final = _exactly(
    r"-?(?:(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?"
    r"|[0-9](?:\.[0-9]{1,99})?[eE](?:\+?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])|-[0-9]{1,3}))"
)
"""A number as a key of an object."""

_MAX_DIGITS = 28
"""The number of digits before the point of a decimal without a limit."""

_BYTE4 = "[A-Za-z0-9+/]{4}"
_TAILS = ("", "[A-Za-z0-9+/][AQgw]==", "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=")


def decimal_pattern(digits: int | None, places: int | None) -> str:
    """Return the pattern of decimals with at most `digits` digits, at most `places` of them after the point; None for no limit."""
    if digits is not None and digits == places:
        return _exactly(rf"-?0\.[0-9]{{1,{places}}}")
    # The digits that are reserved for the places after the point cannot stand before it.
    before = _MAX_DIGITS if digits is None else digits - (places or 0)
    whole = f"-?(?:0|[1-9][0-9]{{0,{before - 1}}})"
    return _exactly(rf"{whole}(?:\.[0-9]{{1,{places}}})?" if places else whole)


def bytes_pattern(least: int, most: int | None) -> str:
    """Return the pattern of base64 for `least` to `most` bytes."""
    forms: list[str] = []
    for rest, tail in enumerate(_TAILS):
        # A group of four characters encodes three bytes; the tail encodes the rest.
        low = max(0, -((rest - least) // 3))
        if most is None:
            forms.append(f"(?:{_BYTE4}){{{low},}}{tail}")
        elif (high := (most - rest) // 3) >= low:
            forms.append(f"(?:{_BYTE4}){{{low},{high}}}{tail}")
    return _exactly("|".join(forms))


# -- schemas of strings ------------------------------------------------------------------------------------------------

# By the rules of JSON Schema, `date-time` and `time` have a time zone.
_FORMATS: Final = {
    "date": DATE,
    "date-time": DATE_TIME[True],
    "time": TIME[True],
    "duration": DURATION,
    "uuid": UUID,
} | {
    f"uuid{version}": _exactly(
        f"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}"
    )
    for version in (1, 3, 4, 5, 6, 7, 8)
}


def string_schema(format_name: str, pattern: str) -> Schema:
    """Return the schema of strings with a format and its pattern."""
    return {"type": "string", "format": format_name, "pattern": pattern}


def datetime_schema(format_name: Literal["date-time", "time"], has_zone: bool | None) -> Schema:
    """Return the schema of a time with a time zone (True), without (False), or with either (None).

    The formats of a time without a time zone are those of the OpenAPI registry.
    """
    forms = TIME if format_name == "time" else DATE_TIME
    zoned = string_schema(format_name, forms[True])
    local = string_schema(f"{format_name}-local", forms[False])
    if has_zone is None:
        return {"anyOf": [zoned, local]}
    return zoned if has_zone else local


# Any: a part of a schema is any plain value.
def add_patterns(tree: Any) -> Any:
    """Return a foreign schema with a pattern for every known format."""
    if isinstance(tree, list):
        return [add_patterns(each) for each in cast("list[object]", tree)]
    if not isinstance(tree, dict):
        return tree
    schema = {key: add_patterns(value) for key, value in cast("dict[str, Any]", tree).items()}
    pattern = _FORMATS.get(str(schema.get("format")))
    if pattern is not None and schema.get("type", "string") == "string":
        schema.setdefault("pattern", pattern)
    return schema
