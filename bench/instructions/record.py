"""The figures that are kept: for each site, the instructions of an operation of each workload."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.instructions.site import Site

PATH = Path(__file__).with_name("record.json")


@dataclass(frozen=True)
class Record:
    """What was counted at one site."""

    site: Site
    figures: Mapping[str, float]


def load(path: Path = PATH) -> list[Record]:
    """Read what is recorded; nothing, where there is no file yet."""
    if not path.exists():
        return []
    # Any: what json gives; the file is ours.
    entries: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))
    return [Record(entry["site"], entry["figures"]) for entry in entries]


def save(records: Sequence[Record], path: Path = PATH) -> None:
    entries = [{"site": dict(record.site), "figures": dict(record.figures)} for record in records]
    path.write_text(json.dumps(entries, indent=2) + "\n", "utf-8")


def with_figures(records: Sequence[Record], site: Site, figures: Mapping[str, float]) -> list[Record]:
    """Put figures in, in place of those that the site had; those it had of other workloads stay."""
    rounded = {name: round(figure, 1) for name, figure in figures.items()}
    known = known_at(records, site)
    if known is None:
        return [*records, Record(site, rounded)]
    fresh = Record(site, {**known.figures, **rounded})
    return [fresh if record is known else record for record in records]


def known_at(records: Sequence[Record], site: Site) -> Record | None:
    """The record of this very site."""
    return next((record for record in records if dict(record.site) == dict(site)), None)


def nearest_to(records: Sequence[Record], site: Site) -> Record | None:
    """The record whose site has most in common with this one, from the first name on; the earlier of two alike."""

    def likeness(record: Record) -> tuple[bool, ...]:
        return tuple(record.site.get(name) == value for name, value in site.items())

    return max(records, key=likeness, default=None)
