"""Error texts that are recorded in files, so that a change of one is seen in review.

A test provokes errors and compares their texts with a file: `TextFiles.check`. `missing_raises` tells which `raise` statements of a
module no provoked error has passed. To write the files anew after a change, run the test with RENEW_TEXTS=1.
"""

from __future__ import annotations

import ast
import re
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from bandstand import errors
from tests.snapshots import compare

ROOT = Path(__file__).parent.parent


class Shown(NamedTuple):
    """One error: its type, what provoked it, and its text."""

    type: str
    situation: str
    text: str


class TextFiles:
    """The recorded texts of one test module, in the folder `texts` beside it."""

    def __init__(self, test_module: str) -> None:
        self._test_module = Path(test_module).relative_to(ROOT)
        self._folder = Path(test_module).parent / "texts"

    def check(self, name: str, title: str, shown: Iterable[Shown]) -> None:
        """Compare errors with a file, or write the file."""
        lines = [f"# {title}", f"# Written by {self._test_module}: run it with RENEW_TEXTS=1 after a change."]
        last = ""
        for each in shown:
            if each.type != last:
                lines += ["", each.type]
            last = each.type
            lines += [f"  {each.situation}:", f"    {each.text}"]
        compare(self._folder / name, "\n".join(lines) + "\n", test=str(self._test_module))


def provoke(
    situation: str, action: Callable[[], object], kinds: type[Exception] | tuple[type[Exception], ...]
) -> tuple[Shown, set[tuple[str, int]]]:
    """Return the error that an action raises, and the modules and lines that its traceback passes."""
    with pytest.raises(kinds) as caught:
        action()
    lines = {
        (Path(each.filename).stem, each.lineno or 0)
        for each in traceback.extract_tb(caught.value.__traceback__)
    }
    text = re.sub(r"0x[0-9a-f]+", "0x...", str(caught.value))
    return Shown(type(caught.value).__name__, situation, text), lines


def missing_raises(module: Any, passed: set[tuple[str, int]], *excepted: str) -> list[str]:
    """Return the `raise` statements of a module that no traceback passes, but for those whose source has one of these texts."""
    path = Path(module.__file__)
    return [
        f"{path.name}:{node.lineno}: {source}"
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Raise)
        and not any(text in (source := ast.unparse(node)) for text in ("\0", *excepted))
        if not any((path.stem, line) in passed for line in range(node.lineno, (node.end_lineno or 0) + 1))
    ]


def texts_in_source(path: Path, *calls: str) -> list[Shown]:
    """Return the texts that a module raises, logs or passes to one of these functions, as they are written there.

    For texts of situations that a test cannot easily provoke. Replacement fields keep their expressions: `pod {name!r} has ended`.
    """
    found: list[Shown] = []

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}" if function else node.name
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            is_raised = isinstance(node.func, ast.Name) and name.endswith(RAISED)
            if is_raised or name.startswith("logger.") or name.endswith(calls):
                found.extend(Shown(name, function, text) for each in node.args if (text := _template(each)))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(path.read_text("utf-8")), "")
    return found


RAISED = (*(name for name in vars(errors) if isinstance(getattr(errors, name), type)), "Error")


def _template(node: ast.expr) -> str:
    """Return a text as it is written, without quotes; empty if the expression is no text, or a single word."""
    if isinstance(node, ast.Constant):
        text = node.value if isinstance(node.value, str) else ""
    elif isinstance(node, ast.JoinedStr):
        text = "".join(
            _field(part) if isinstance(part, ast.FormattedValue) else _template_part(part)
            for part in node.values
        )
    else:
        return ""
    return text if " " in text else ""


def _template_part(node: ast.expr) -> str:
    return str(node.value) if isinstance(node, ast.Constant) else ""


def _field(node: ast.FormattedValue) -> str:
    """Return a replacement field, with the same quotes in all versions of Python."""
    conversion = "" if node.conversion < 0 else f"!{chr(node.conversion)}"
    parts = node.format_spec.values if isinstance(node.format_spec, ast.JoinedStr) else []
    format_spec = "".join(map(_template_part, parts))
    return f"{{{ast.unparse(node.value)}{conversion}{format_spec and ':'}{format_spec}}}".replace('"', "'")
