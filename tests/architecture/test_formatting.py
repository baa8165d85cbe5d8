"""Objects of the program are shown through `bandstand.errors.formatting` alone, and lines are logged through `SafeLogger`.

A `repr()` that raises where a failure is handled would end supervision, so none is called directly. What the runtime knows to be its
own, or has checked to be a string, may be shown with `!r`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.architecture import package_layout

pytestmark = [pytest.mark.once, pytest.mark.guarantee("G282")]

# The last part of an expression that is a name, an id, a handle or another object of the runtime's own.
OWN = frozenset(
    [
        "OVERLOADED",
        "__qualname__",
        "_bs_actor",
        "own_handle(self._machine)",
        "__actor_handle__",
        "_bs_name",
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
        "description",
        "gone",
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
        "times",
        "troupe",
        "word",
    ]
) | {"alone[id(options)]", "known[id(value)]", "path[place + 1]"}
# What is no program's own code: people's tools, and help for tests.
ELSEWHERE = ("cli/", "testing/", "__main__.py")
SHOWN = re.compile(r"(?P<before>.{0,40})\{(?P<what>[^{}\n]+?)!r\}|(?<![\w.])repr\((?P<called>[^\n]+?)\)")
BARE = re.compile(
    r"\{(error|cause|exc|exception|failure|reason_error)(!s)?\}|\bstr\((cause|exc|exception|failure)\)"
)


def sources(*besides: str) -> Iterator[tuple[str, str]]:
    for path in sorted(package_layout.PACKAGE.rglob("*.py")):
        name = str(path.relative_to(package_layout.PACKAGE))
        if not name.startswith((*ELSEWHERE, *besides)):
            yield name, path.read_text("utf-8")


def is_own(what: str) -> bool:
    return any(what == own or what.endswith(f".{own}") for own in OWN)


def test_objects_of_the_program_are_shown_safely() -> None:
    found = [
        f"{name}: {match[0].strip()}"
        for name, text in sources("errors/formatting.py", "_build_mode.py")
        for match in SHOWN.finditer(text)
        if not is_own(match["what"] or match["called"])
        # An argument that was refused can be anything.
        or (match["before"] or "").endswith("name is ")
    ]
    assert found == [], (
        "use safe_repr() there; or, if it is always the runtime's own object, name it in OWN here"
    )


def test_exceptions_are_described_safely() -> None:
    found = [
        f"{name}: {match[0]}"
        for name, text in sources("errors/formatting.py")
        for match in BARE.finditer(text)
    ]
    assert found == [], "use safe_str() or describe_exception()"


@pytest.mark.parametrize(
    ("pattern", "home", "instead"),
    [
        (r"\blogger = logging.getLogger\(", "core/logs.py", "SafeLogger"),
        (
            r"\bformat_exception\(|\bprint_exc|\bformat_exc\(|TracebackException\(",
            "errors/formatting.py",
            "safe_traceback",
        ),
    ],
)
def test_there_is_one_place_for_each(pattern: str, home: str, instead: str) -> None:
    found = [name for name, text in sources(home) if re.search(pattern, text)]
    assert found == [], f"use {instead} there"
