"""How figures are written: short enough for a column, exact enough to compare."""

from __future__ import annotations

UNITS = {"bytes": "B"}
NONE = "–"


def rate(per_second: float) -> str:
    """Write operations a second with three digits: 4.71M, 152k, 98.2."""
    for power, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        # What three digits would round up to the next letter is written with that letter.
        if per_second >= power * 0.9995:
            return _three(per_second / power) + letter
    return _three(per_second)


def ratio(times: float) -> str:
    """Write a ratio so that small ones still say something: 12.3, 1.00, 0.03, 0.004."""
    if times < 0.00995:
        return f"{times:.3f}"
    return f"{times:.2f}" if times < 9.995 else f"{times:.1f}" if times < 99.95 else f"{times:,.0f}"


def value(amount: float, unit: str) -> str:
    """Write a figure that is no rate, with its unit: 1,024 B, 2.31 ms."""
    return f"{plain(amount, unit)} {UNITS.get(unit, unit)}"


def plain(amount: float, unit: str) -> str:
    """Write a figure without its unit: nanoseconds and bytes whole where they are large, delays with their parts."""
    return f"{amount:,.2f}" if unit == "ms" else f"{amount:,.0f}" if amount >= 9.95 else f"{amount:.1f}"


def _three(number: float) -> str:
    return f"{number:.2f}" if number < 9.995 else f"{number:.1f}" if number < 99.95 else f"{number:.0f}"
