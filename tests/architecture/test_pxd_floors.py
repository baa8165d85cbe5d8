"""The floors hold for cimport lines too, which import-linter cannot read."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture import house

_CIMPORT = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+cimport\s|cimport\s+(?P<module>[\w.]+))")
OUTSIDE = ("cpython", "cython", "libc")


def cimports(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if match := _CIMPORT.match(line):
            yield match["source"] or match["module"]


def offences(folder: Path) -> list[str]:
    """Return the cimports that reach above their own floor, or from a hot package to something that is not hot."""
    floors = house.floors("floors")
    found: list[str] = []
    for path in sorted(folder.rglob("*.pxd")):
        own = path.relative_to(folder).with_suffix("").parts
        for target in cimports(path.read_text("utf-8")):
            parts = target.split(".")
            if parts[0] in OUTSIDE:
                continue
            if parts[0] != "bandstand" or len(parts) < 2:
                found.append(f"{'/'.join(own)}: cimport of {target}: name the module in full")
            elif "hot" in own[1:-1] and "hot" not in parts[2:-1]:
                found.append(f"{'/'.join(own)}: a hot package cimports {target}, which is in none")
            elif parts[1] != own[0] and floors[parts[1]] >= floors[own[0]]:
                found.append(f"{'/'.join(own)}: {target} is not on a lower floor")
    return found


def test_no_declaration_reaches_up() -> None:
    assert offences(house.PACKAGE) == []


def test_a_declaration_that_reaches_up_would_be_seen(tmp_path: Path) -> None:
    hot, upper = tmp_path / "core" / "hot", tmp_path / "actor" / "hot"
    hot.mkdir(parents=True)
    upper.mkdir(parents=True)
    (hot / "a.pxd").write_text(
        "cimport cython\nfrom libc.stdint cimport int64_t\nfrom bandstand.core.hot.b cimport B\n"
    )
    (upper / "d.pxd").write_text(
        "from bandstand.core.hot.b cimport B\nfrom bandstand.actor.hot.e cimport E\n"
    )
    assert offences(tmp_path) == []
    (hot / "b.pxd").write_text(
        "from bandstand.core.asyncio_host cimport Host\n  cimport bandstand.app\nfrom .a cimport A\n"
    )
    (tmp_path / "core" / "c.pxd").write_text("from bandstand.app cimport App\n")
    assert len(offences(tmp_path)) == 4
    (hot / "f.pxd").write_text("from bandstand.actor.hot.e cimport E\n")
    (upper / "e.pxd").write_text(
        "from bandstand.core.asyncio_host cimport Host\nfrom bandstand.actor.part cimport Part\n"
    )
    assert len(offences(tmp_path)) == 7
