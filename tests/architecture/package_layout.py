"""What the architecture tests know about the source tree: where its files are, and the layers of the packages."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parents[2]
SRC = ROOT / "src"
PACKAGE = SRC / "bandstand"


def config() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def contract(contract_id: str) -> dict[str, Any]:
    contracts = cast("list[dict[str, Any]]", config()["tool"]["importlinter"]["contracts"])
    return next(contract for contract in contracts if contract["id"] == contract_id)


def layers() -> dict[str, int]:
    """Return each package with the number of its layer, 0 at the bottom."""
    names = cast("list[str]", contract("layers")["layers"])
    return {
        name.strip(" ()"): number
        for number, layer in enumerate(reversed(names))
        for name in layer.replace("|", ":").split(":")
    }


def compiled_modules() -> list[str]:
    """Return the full names of the compiled modules, sorted: those with a `.pxd`."""
    paths = (path.relative_to(SRC).with_suffix("") for path in PACKAGE.rglob("*.pxd"))
    return sorted(".".join(path.parts) for path in paths)
