"""`bandstand config`: what holds here, and why."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TextIO

from bandstand.cli.keys import KEYS, Setting
from bandstand.cli.terminal import printable, table

if TYPE_CHECKING:
    from bandstand.cli.settings import Settings

__all__ = ("show_settings",)


def show_settings(settings: Settings, out: TextIO, *, is_json: bool = False) -> int:
    """Print every setting with its value and where it comes from; 0."""
    if is_json:
        told = {
            name: {"value": found.value, "source": found.source, "where": found.where}
            for name, found in settings.values.items()
        }
        out.write(json.dumps({"file": settings.file or None, "settings": told}, indent=2) + "\n")
        return 0
    rows = [
        (name, printable(_written(found.value)), printable(str(found)), KEYS[name].variable)
        for name, found in settings.values.items()
    ]
    out.write(table(rows, ("key", "value", "comes from", "variable")) + "\n")
    return 0


def _written(value: Setting) -> str:
    if value is None or value in {"", ()}:
        return "-"
    return ",".join(value) if isinstance(value, tuple) else json.dumps(value)
