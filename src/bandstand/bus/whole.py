"""Whole numbers, however they are written.

JSON has one kind of number: for JSON Schema `1.0` and `1e3` are integers, and for msgspec they are none. Where a decoder has met a
fraction and wanted an integer, the same is written anew with every whole number as an integer, and read once more. That is
slow, and happens only to what would be refused otherwise.
"""

from __future__ import annotations

import json
from decimal import Decimal
from math import isfinite
from typing import Final, NoReturn

import msgspec

__all__ = ("is_about_fractions", "with_whole_numbers")

LONGEST: Final = 400
"""With more digits than this, a number is left to be refused: it costs a line little to ask for a number with a billion."""


def is_about_fractions(error: Exception) -> bool:
    """Whether a decoder has met a fraction and wanted something else: all else is wrong for JSON Schema too."""
    # Of the tag of a struct it says only what it has expected.
    return "got `float`" in str(error) or str(error).startswith("Expected `int`")


def with_whole_numbers(line: bytes) -> bytes:
    """The same JSON with every number that is whole as an integer.

    Raises:
        ValueError: it is not JSON, or has a number that is too large.
    """
    return msgspec.json.encode(json.loads(line, parse_float=_number, parse_constant=_refuse))


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number of JSON's")


def _number(text: str) -> int | float:
    try:
        exact = Decimal(text)
    except ArithmeticError:
        # An exponent that no decimal can have.
        _refuse(text)
    if exact.adjusted() < LONGEST and exact == exact.to_integral_value():
        return int(exact)
    number = float(text)
    if not isfinite(number):
        _refuse(text)
    return number
