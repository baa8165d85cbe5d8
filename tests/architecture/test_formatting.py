"""Users' objects are formatted only with `bandstand.errors.formatting`, and log lines are written only with `SafeLogger`.

A `repr()` that raises while a failure is handled would end supervision, so the runtime never calls it directly. `!r` is allowed for the
runtime's own objects, and for values that were checked to be strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture import package_layout

pytestmark = [pytest.mark.once, pytest.mark.guarantee("G282")]

# The last parts of expressions that are names, ids, handles or other objects of the runtime.
OWN = frozenset(
    [
        "OVERLOADED",
        "__qualname__",
        "__handle_actor__",
        "own_handle(self._machine)",
        "__actor_handle__",
        "__handle_name__",
        "_handle",
        "_here",
        "_host",
        "_key()",
        "_name",
        "_path",
        "_there",
        "_title",
        "actor",
        "channel",
        "child",
        "close[0]",
        "deployment",
        "description",
        "exited",
        "handle",
        "host",
        "id",
        "join(path)",
        "join(self._path)",
        "label",
        "main[0]",
        "main[1]",
        "me",
        "missing[0]",
        "name",
        "number",
        "one",
        "pipe",
        "pod",
        "role",
        "self",
        "self_id",
        "state",
        "step",
        "strange[0]",
        "supervisor",
        "tag",
        "taken[0]",
        "taken",
        "there",
        "times",
        "troupe",
        "unknown[0]",
        "word",
    ]
) | {"single[id(options)]", "names[id(value)]", "path[place + 1]"}
# Code in which a repr() that raises does no harm: the command line and the test kit.
EXEMPT = ("cli/", "testing/", "__main__.py")
FORMATTED = re.compile(r"(?P<before>.{0,40})\{(?P<what>[^{}\n]+?)!r\}|(?<![\w.])repr\((?P<called>[^\n]+?)\)")
UNSAFE = re.compile(
    r"\{(error|cause|exc|exception|failure|reason_error)(!s)?\}|\bstr\((cause|exc|exception|failure)\)"
)


def sources(*exempt: str) -> Iterator[tuple[str, str]]:
    for path in sorted(package_layout.PACKAGE.rglob("*.py")):
        name = str(path.relative_to(package_layout.PACKAGE))
        if not name.startswith((*EXEMPT, *exempt)):
            yield name, path.read_text("utf-8")


def is_own(what: str) -> bool:
    return any(what == own or what.endswith(f".{own}") for own in OWN)


def test_objects_of_users_are_formatted_safely() -> None:
    found = [
        f"{name}: {match[0].strip()}"
        for name, text in sources("errors/formatting.py", "_build_mode.py")
        for match in FORMATTED.finditer(text)
        if not is_own(match["what"] or match["called"])
        # A rejected argument can be anything.
        or (match["before"] or "").endswith("name is ")
    ]
    assert found == [], "use safe_repr() there; or, if it is always an object of the runtime, add it to OWN"


def test_exceptions_are_described_safely() -> None:
    found = [
        f"{name}: {match[0]}"
        for name, text in sources("errors/formatting.py")
        for match in UNSAFE.finditer(text)
    ]
    assert found == [], "use safe_str() or describe_exception()"


@pytest.mark.parametrize(
    ("pattern", "module", "instead"),
    [
        (r"\blogger = logging.getLogger\(", "core/logs.py", "SafeLogger"),
        (
            r"\bformat_exception\(|\bprint_exc|\bformat_exc\(|TracebackException\(",
            "errors/formatting.py",
            "safe_traceback",
        ),
    ],
)
def test_only_one_module_does_this_directly(pattern: str, module: str, instead: str) -> None:
    found = [name for name, text in sources(module) if re.search(pattern, text)]
    assert found == [], f"use {instead} there"
