"""The types of pods: right uses are clean and infer what they say, each wrong use is an error in mypy and in pyright."""

from __future__ import annotations

import pytest

from tests.types.checkers import CHECKERS, HERE

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(300), pytest.mark.spec("S13")]


@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_clean(checker: str) -> None:
    assert CHECKERS[checker]()[HERE / "right_pods.py"] == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_use_is_an_error_and_nothing_else_is(checker: str) -> None:
    path = HERE / "wrong_pods.py"
    lines = path.read_text("utf-8").splitlines()
    marked = {number: line.strip() for number, line in enumerate(lines, 1) if line.endswith("# E:")}
    assert len(marked) > 90
    found = CHECKERS[checker]()[path]
    assert {at: line for at, line in marked.items() if at not in found} == {}, "wrong, and accepted"
    assert {at: error for at, error in found.items() if at not in marked} == {}, "unexpected"
