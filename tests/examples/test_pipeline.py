"""The pipeline: it adds up, it tells what went wrong, and it is over in time."""

from __future__ import annotations

import pytest

from tests.examples.running import run

pytestmark = pytest.mark.slow


def result(*options: str) -> tuple[int, list[str], str]:
    done = run("pipeline.py", *options)
    return done.returncode, done.stdout.splitlines(), done.stderr


@pytest.mark.spec("K1", "K6")
def test_it_adds_up_and_ends_by_itself() -> None:
    code, lines, errors = result()
    assert (code, lines[-1], errors) == (0, "done    31", "")
    assert [line.split()[1] for line in lines if line.startswith("parse")] == [
        "3",
        "1",
        "4",
        "1",
        "5",
        "9",
        "2",
        "6",
    ]


@pytest.mark.spec("K7")
def test_a_bad_line_ends_all_of_it_and_is_told_once() -> None:
    code, lines, errors = result("--bad")
    assert (code, lines[-1], errors) == (1, "failed  invalid literal for int() with base 10: 'π'", "")
    assert lines[-2] == "parse   π"


@pytest.mark.spec("K4", "K6")
def test_a_deadline_ends_what_nobody_closes() -> None:
    code, lines, errors = result("--late")
    assert (code, lines[-1], errors) == (1, "late    its deadline of 200 ms has passed", "")
