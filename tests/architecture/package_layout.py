"""What the architecture tests know about the source tree: where its files are, and the layers of the packages."""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Iterator
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


# The packages whose top-level names must be unique: each mechanism and class is defined once.
PACKAGES = (
    "errors", "core", "supervision", "scope", "actor", "registry", "topic", "pool", "shutdown", "persistence", "pod", "bus", "cli",
    "testing",
)  # fmt: skip


def definitions() -> Iterator[tuple[str, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the top-level classes and functions of these packages, with the paths of their modules."""
    for package in PACKAGES:
        for path in sorted((PACKAGE / package).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                    yield path.relative_to(PACKAGE).as_posix(), node
