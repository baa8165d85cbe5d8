"""The thumbnails: all but the broken one are made, whatever happens on the way."""

from __future__ import annotations

import pytest

from tests.examples.running import run

pytestmark = [pytest.mark.slow, pytest.mark.guarantee("G221", "G226", "G231")]


def result(*options: str) -> tuple[int, set[str], str]:
    done = run("thumbnails.py", *options)
    return done.returncode, set(done.stdout.splitlines()), done.stderr


@pytest.mark.parametrize(("options", "workers"), [((), 6), (("--small",), 1)])
def test_one_is_given_up_and_all_others_are_made(options: tuple[str, ...], workers: int) -> None:
    code, lines, errors = result(*options)
    assert (code, errors) == (0, "")
    assert lines >= {
        f"workers     {workers}",
        "had to wait yes",
        "given up    Shrinker.shrink() 13",
        "drained     True",
        "handled     39, dead 1, tried again 2",
        "missing     [13]",
    }


def test_the_writer_writes_many_at_a_time() -> None:
    assert "fewer writes than thumbnails: True" in result()[1]
