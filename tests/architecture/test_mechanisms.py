"""Each mechanism of the lower layers is defined once. This says where, and fails when a second one appears."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.architecture import package_layout

pytestmark = pytest.mark.once

PACKAGES = (
    "errors", "core", "scope", "supervision", "actor", "registry", "topic", "pool", "shutdown", "testing",
)  # fmt: skip

HOMES = {
    "counters of messages that balance": ("core.counters", "MessageCounters"),
    "delivery callback": ("core.delivery", "DeliveryCallback"),
    "one-shot event": ("scope.event", "OneShotEvent"),
    "restart limit": ("supervision.restart", "Intensity"),
    "restart delay": ("supervision.restart", "Backoff"),
    "rate-limited log line": ("core.logs", "RateLimitedLog"),
    "rate-limited crash log": ("core.logs", "CrashLimiter"),
    "safe logger": ("core.logs", "SafeLogger"),
    "safe text of an object": ("errors.formatting", "safe_repr"),
    "check of milliseconds": ("errors.validation", "check_ms"),
    "check of an integer": ("errors.validation", "check_int"),
    "check of a member of an enumeration": ("errors.validation", "check_member"),
}

# Names that a second definition of a mechanism would have, and the one module that may define them.
NAMES = {
    r"\w*(Backoff|Intensity)": "supervision/restart.py",
    r"\w*(Limiter|RateLimited\w*)": "core/logs.py",
    r"\w*(OneShot\w*|Latch)": "scope/event.py",
    r"_?(check_ms|check_int|check_member|is_number)": "errors/validation.py",
    r"_?safe_(repr|str|traceback)": "errors/formatting.py",
    r"\w*Logger": "core/logs.py",
}
# It decides which events the log mentions, through a RateLimitedLog for each kind.
ALLOWED = {("core/events.py", "EventLogger")}


def definitions() -> Iterator[tuple[str, str]]:
    """Return the top-level classes and functions of the lower layers, with their modules."""
    for package in PACKAGES:
        for path in sorted((package_layout.PACKAGE / package).rglob("*.py")):
            module = path.relative_to(package_layout.PACKAGE).as_posix()
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                    yield module, node.name


@pytest.mark.parametrize("mechanism", HOMES)
def test_a_mechanism_is_where_the_table_says(mechanism: str) -> None:
    module, name = HOMES[mechanism]
    defined = getattr(import_module(f"bandstand.{module}"), name)
    assert defined.__module__ == f"bandstand.{module}"


@pytest.mark.parametrize("pattern", NAMES)
def test_no_other_module_defines_it_again(pattern: str) -> None:
    found = {(module, name) for module, name in definitions() if re.fullmatch(pattern, name)}
    assert any(module == NAMES[pattern] for module, _ in found), (
        "the pattern matches nothing: correct the table"
    )
    assert {module for module, _ in found - ALLOWED} == {NAMES[pattern]}


def test_the_longest_time_is_written_once() -> None:
    """A hundred years, in milliseconds: timers, deadlines and timeouts share the limit."""
    found = [
        path.relative_to(package_layout.PACKAGE).as_posix()
        for package in PACKAGES
        for path in sorted((package_layout.PACKAGE / package).rglob("*.py"))
        if "100 * 366" in path.read_text("utf-8")
    ]
    assert found == ["errors/validation.py"]
