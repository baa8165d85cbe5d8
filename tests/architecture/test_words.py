"""Names that say nothing are not names."""

import ast

import pytest

from tests.architecture import house

EMPTY = {
    "util",
    "utils",
    "helper",
    "helpers",
    "manager",
    "managers",
    "misc",
    "common",
    "impl",
    "base",
    "stuff",
}

# Methods that are called so because somebody else calls them: what they belong to is not ours to name.
FOREIGN = {"get_write_buffer_size": "asyncio.Transport"}


def test_no_module_hides_behind_an_empty_word() -> None:
    names = [
        path.relative_to(house.PACKAGE)
        for path in house.PACKAGE.rglob("*")
        if path.suffix in {".py", ".pxd", ""}
    ]
    assert [str(path) for path in names if set(path.stem.lower().split("_")) & EMPTY] == []


@pytest.mark.slow
def test_no_public_function_is_a_getter_and_no_class_a_manager() -> None:
    found: list[str] = []
    for path in house.PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if (
                isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                and node.name.startswith("get_")
                and node.name not in FOREIGN
            ):
                found.append(f"{path.name}:{node.lineno} {node.name}")
            if isinstance(node, ast.ClassDef) and node.name.endswith(
                ("Manager", "Helper", "Util", "Utils", "Impl")
            ):
                found.append(f"{path.name}:{node.lineno} {node.name}")
    assert found == []
