"""The public API, compared with `tests/architecture/public_api.txt`: every exported name with its signature and its members.

A change of the API is seen in review, because the file changes with it. To write it again after a change:

    RENEW_TEXTS=1 .venv/bin/python -m pytest tests/architecture/test_public_api.py

The signatures are read from the sources, because compiled and interpreted code show them differently.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

from tests.architecture import package_layout
from tests.snapshots import compare

pytestmark = pytest.mark.once

PACKAGES = (
    "bandstand", "bandstand.actor", "bandstand.bus", "bandstand.core", "bandstand.errors", "bandstand.isolation",
    "bandstand.notebook", "bandstand.parts", "bandstand.persistence", "bandstand.pod", "bandstand.pool", "bandstand.registry", "bandstand.scope",
    "bandstand.shutdown", "bandstand.supervision", "bandstand.testing",
    "bandstand.topic", "bandstand.web",
)  # fmt: skip

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@cache
def module_file(name: str) -> Path | None:
    path = package_layout.SRC.joinpath(*name.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.exists()), None)


@cache
def parsed(name: str) -> ast.Module:
    path = module_file(name)
    assert path is not None, name
    return ast.parse(path.read_text("utf-8"))


def find(module: str, name: str) -> tuple[str, list[Definition]] | None:
    """Return the module that defines a name, and its definitions there (overloads are several)."""
    found: list[Definition] = []
    for node in statements(parsed(module)):
        if isinstance(node, Definition) and node.name == name:
            found.append(node)
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("bandstand"):
            for alias in node.names:
                if (alias.asname or alias.name) == name and module_file(node.module) is not None:
                    return find(node.module, alias.name)
    return (module, found) if found else None


def statements(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module, also those for type checkers only."""
    for node in tree.body:
        yield node
        if isinstance(node, ast.If):
            yield from node.body


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    returns = "" if node.returns is None else f" -> {ast.unparse(node.returns)}"
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


def decorators(node: Definition) -> list[str]:
    return [ast.unparse(decorator) for decorator in node.decorator_list]


def functions(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the public functions of a class or module body. Of overloads, only these are shown and not the implementation."""
    overloaded: set[str] = set()
    for node in body:
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        marks = decorators(node)
        is_overload = "overload" in marks
        if is_overload:
            overloaded.add(node.name)
        elif node.name in overloaded or any(mark.endswith(".setter") for mark in marks):
            continue
        if node.name.startswith("_") and node.name not in {"__init__", "__call__", "__aenter__", "__enter__"}:
            continue
        shown = [mark for mark in marks if mark in {"property", "staticmethod", "classmethod", "overload"}]
        yield " ".join([*(f"@{mark}" for mark in shown), signature(node)])


def members(node: ast.ClassDef) -> Iterator[str]:
    for statement in node.body:
        match statement:
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
                if not name.startswith("_"):
                    yield ast.unparse(statement)
            case _:
                pass
    yield from functions(node.body)


def describe(module: str, name: str) -> Iterator[str]:
    found = find(module, name)
    if found is None:
        yield f"  {name}"
        return
    home, nodes = found
    if isinstance(nodes[-1], ast.ClassDef):
        bases = ", ".join(ast.unparse(base) for base in nodes[-1].bases)
        yield f"  class {name}({bases})  [{home}]"
        yield from (f"    {line}" for line in members(nodes[-1]))
    else:
        yield from (f"  {line}  [{home}]" for line in functions(list(nodes)))


def public_api() -> str:
    lines: list[str] = []
    for package in PACKAGES:
        lines.append(package)
        for name in import_module(package).__all__:
            if package == "bandstand":
                lines.append(f"  {name}")
            else:
                lines.extend(describe(package, name))
        lines.append("")
    return "\n".join(lines)


def test_a_change_of_the_public_api_is_recorded() -> None:
    compare(
        Path(__file__).parent / "public_api.txt", public_api(), test="tests/architecture/test_public_api.py"
    )
