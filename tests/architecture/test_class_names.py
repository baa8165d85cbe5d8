"""A class name is defined once, so that it can be searched for and is not confused with another."""

import ast
from collections import defaultdict

import pytest

from tests.architecture import package_layout

PACKAGES = (
    "errors",
    "core",
    "supervision",
    "scope",
    "actor",
    "registry",
    "topic",
    "pool",
    "shutdown",
    "pod",
    "bus",
    "cli",
    "testing",
)


def definitions() -> dict[str, list[str]]:
    """Return the modules that define each class name, at the top level of a module."""
    found: dict[str, list[str]] = defaultdict(list)
    for package in PACKAGES:
        for path in sorted((package_layout.PACKAGE / package).rglob("*.py")):
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    found[node.name].append(path.relative_to(package_layout.SRC).as_posix())
    return found


@pytest.mark.once
def test_class_names_are_unique() -> None:
    assert {name: paths for name, paths in definitions().items() if len(paths) > 1} == {}
