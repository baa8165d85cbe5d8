"""A class name is defined once, so that it can be searched for and is not confused with another."""

import ast
from collections import defaultdict

import pytest

from tests.architecture import package_layout


@pytest.mark.once
def test_class_names_are_unique() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path, node in package_layout.definitions():
        if isinstance(node, ast.ClassDef):
            found[node.name].append(path)
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
