r"""Regular expressions for what has a form but is written as a string: dates, times, numbers of any size, bytes.

Each takes no more than the decoder does, leap years included. They are read by ECMAScript and by Python alike: no `\d`, which in
Python is any digit of any script, and no end before a last line break, which Python's `$` would allow.
"""

from __future__ import annotations

from typing import Any, Final, cast

__all__ = (
    "DATE",
    "DATE_TIME",
    "DECIMAL",
    "DURATION",
    "NUMBER",
    "TIME",
    "UUID",
    "WHOLE",
    "bytes_pattern",
    "decimal_pattern",
    "tightened",
)


def _whole(pattern: str) -> str:
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

DATE: Final = _whole(_DATE)
"""A day: `2026-01-31`."""
TIME: Final[dict[bool, str]] = {has_zone: _whole(f"{_TIME}{zone}") for has_zone, zone in _ZONES.items()}
"""A time of day: with a zone (True), `12:00:00Z`, and without one (False)."""
DATE_TIME: Final[dict[bool, str]] = {
    has_zone: _whole(f"{_DATE}[Tt ]{_TIME}{zone}") for has_zone, zone in _ZONES.items()
}
"""A moment: `2026-01-31T12:00:00Z`; likewise."""
DURATION: Final = _whole(
    r"[+-]?P(?=[0-9T])(?:[0-9]{1,8}D)?"
    r"(?:T(?=[0-9])(?:[0-9]{1,5}H)?(?:[0-9]{1,7}M)?(?:[0-9]{1,8}(?:\.[0-9]{1,6})?S)?)?"
)
"""A length of time: `P1DT12H30M0.5S`."""
_HEX = "[0-9a-fA-F]"
UUID: Final = _whole(f"{_HEX}{{8}}-(?:{_HEX}{{4}}-){{3}}{_HEX}{{12}}")
"""A UUID with its dashes."""
DECIMAL: Final = _whole(r"[+-]?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,4})?")
"""A number of any size and precision, as a string."""

WHOLE: Final = _whole("0|-?[1-9][0-9]*")
"""An integer as the key of an object."""
NUMBER: Final = _whole(
    r"-?(?:(?:0|[1-9][0-9]{0,99})(?:\.[0-9]{1,99})?"
    r"|[0-9](?:\.[0-9]{1,99})?[eE](?:\+?(?:[0-9]{1,2}|[12][0-9]{2}|30[0-7])|-[0-9]{1,3}))"
)
"""A number as the key of an object."""

MOST_DIGITS = 28
"""How many digits a decimal has before its point, if there is no rule about it."""

_BYTE4 = "[A-Za-z0-9+/]{4}"
_TAILS = ("", "[A-Za-z0-9+/][AQgw]==", "[A-Za-z0-9+/]{2}[AEIMQUYcgkosw048]=")


def decimal_pattern(digits: int | None, places: int | None) -> str:
    """A decimal number with at most so many digits, and so many of them after the point."""
    if digits is not None and digits == places:
        return _whole(rf"-?0\.[0-9]{{1,{places}}}")
    # As many stand before the point as are not kept for those behind it.
    before = MOST_DIGITS if digits is None else digits - (places or 0)
    whole = f"-?(?:0|[1-9][0-9]{{0,{before - 1}}})"
    return _whole(rf"{whole}(?:\.[0-9]{{1,{places}}})?" if places else whole)


def bytes_pattern(least: int, most: int | None) -> str:
    """Base 64 of at least and at most so many bytes."""
    forms: list[str] = []
    for rest, tail in enumerate(_TAILS):
        # Whole groups stand for three bytes, and the tail for what is left.
        low = max(0, -((rest - least) // 3))
        if most is None:
            forms.append(f"(?:{_BYTE4}){{{low},}}{tail}")
        elif (high := (most - rest) // 3) >= low:
            forms.append(f"(?:{_BYTE4}){{{low},{high}}}{tail}")
    return _whole("|".join(forms))


_FORMATS: Final = {
    "date": DATE,
    # By the rules of JSON Schema these two have a zone.
    "date-time": DATE_TIME[True],
    "time": TIME[True],
    "duration": DURATION,
    "uuid": UUID,
} | {
    f"uuid{version}": _whole(f"{_HEX}{{8}}-{_HEX}{{4}}-{version}{_HEX}{{3}}-[89abAB]{_HEX}{{3}}-{_HEX}{{12}}")
    for version in (1, 3, 4, 5, 6, 7, 8)
}


# Any: a JSON Schema is a tree of plain values.
def tightened(tree: Any) -> Any:
    """A schema of somebody else's, with a pattern for every format that is known here."""
    if isinstance(tree, list):
        return [tightened(each) for each in cast("list[object]", tree)]
    if not isinstance(tree, dict):
        return tree
    schema = {key: tightened(value) for key, value in cast("dict[str, Any]", tree).items()}
    pattern = _FORMATS.get(str(schema.get("format")))
    if pattern is not None and schema.get("type", "string") == "string":
        schema.setdefault("pattern", pattern)
    return schema
