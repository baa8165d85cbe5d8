"""Small rooms: a module that grows past 300 lines (a hot one past 400, for calls inside one C unit) wants to be two."""

from pathlib import Path

import pytest

from tests.architecture import house

SOFT = 300
SOFT_HOT = 400
HARD = 500

# Modules between the two limits, each with the reason why it is still one.
LONGER: dict[str, str] = {}

MODULES = sorted(path for path in house.PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return path.relative_to(house.PACKAGE).as_posix()


def soft_limit(name: str) -> int:
    return SOFT_HOT if "/hot/" in name else SOFT


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_size(path: Path) -> None:
    lines, name = len(path.read_text("utf-8").splitlines()), name_of(path)
    assert lines <= HARD, f"{lines} lines: over the hard limit, no reason is good enough"
    assert lines <= soft_limit(name) or name in LONGER, f"{lines} lines: split it, or say in LONGER why not"


def test_exceptions_are_needed() -> None:
    sizes = {name_of(path): len(path.read_text("utf-8").splitlines()) for path in MODULES}
    assert [name for name in LONGER if sizes.get(name, 0) <= soft_limit(name)] == []
