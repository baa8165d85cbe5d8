"""The layers between packages hold for cimport lines too, which import-linter cannot read."""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.architecture import package_layout

_CIMPORT = re.compile(r"^\s*(?:from\s+(?P<source>[\w.]+)\s+cimport\s|cimport\s+(?P<module>[\w.]+))")
EXTERNAL = ("cpython", "cython", "libc")


def cimports(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if match := _CIMPORT.match(line):
            yield match["source"] or match["module"]


def violations(folder: Path) -> list[str]:
    """Return the cimports from a layer that is not lower, and those that do not name their module in full."""
    layers = package_layout.layers()
    found: list[str] = []
    for path in sorted(folder.rglob("*.pxd")):
        own = path.relative_to(folder).with_suffix("").parts
        for target in cimports(path.read_text("utf-8")):
            parts = target.split(".")
            if parts[0] in EXTERNAL:
                continue
            if parts[0] != "bandstand" or len(parts) < 2:
                found.append(f"{'/'.join(own)}: cimport of {target}: name the module in full")
            elif parts[1] != own[0] and layers[parts[1]] >= layers[own[0]]:
                found.append(f"{'/'.join(own)}: {target} is not in a lower layer")
    return found


def test_no_pxd_cimports_from_an_upper_layer() -> None:
    assert violations(package_layout.PACKAGE) == []


def test_a_cimport_from_an_upper_layer_is_found(tmp_path: Path) -> None:
    core, actor = tmp_path / "core", tmp_path / "actor"
    (core / "inner").mkdir(parents=True)
    actor.mkdir()
    (core / "a.pxd").write_text(
        "cimport cython\nfrom libc.stdint cimport int64_t\nfrom bandstand.core.inner.b cimport B\n"
    )
    (core / "inner" / "b.pxd").write_text("from bandstand.core.a cimport A\n")
    (actor / "c.pxd").write_text("from bandstand.core.a cimport A\nfrom bandstand.actor.d cimport D\n")
    assert violations(tmp_path) == []
    (core / "e.pxd").write_text("  cimport bandstand.app\nfrom .a cimport A\n")
    assert len(violations(tmp_path)) == 2
    (core / "inner" / "f.pxd").write_text("from bandstand.actor.c cimport C\n")
    assert len(violations(tmp_path)) == 3
