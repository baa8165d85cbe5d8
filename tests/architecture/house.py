"""What the architecture tests know of the house: where its files are and what its floors are."""

from __future__ import annotations

import ast
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


def floors(contract_id: str) -> dict[str, int]:
    """Return each name of a layers contract with its height, 0 at the bottom."""
    layers = cast("list[str]", contract(contract_id)["layers"])
    return {
        name.strip(" ()"): height
        for height, layer in enumerate(reversed(layers))
        for name in layer.replace("|", ":").split(":")
    }


def assigned(path: Path, name: str) -> Any:
    """Return the literal that a file assigns to a name at its top level, or None."""
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == [name]:
            return ast.literal_eval(node.value)
    return None


# The packages of hot modules by their full names, lowest first, as the build lists them.
HOT = {
    name: SRC.joinpath(*name.split("."))
    for name in cast("tuple[str, ...]", assigned(ROOT / "setup.py", "PACKAGES"))
}


def hot_modules() -> list[str]:
    """Return the full names of all hot modules, as their packages list them."""
    return [f"{name}.{module}" for name, folder in HOT.items() for module in listed(folder)]


def listed(folder: Path) -> tuple[str, ...]:
    """Return what a hot package lists as its modules."""
    return cast("tuple[str, ...]", assigned(folder / "__init__.py", "MODULES"))
