"""The raw loop as an example: it ends well, in few lines, and its books balance."""

from __future__ import annotations

import re

import pytest

from tests.examples.running import output_of


@pytest.fixture(scope="module")
def output() -> str:
    return output_of("raw_loop.py")


pytestmark = pytest.mark.slow


def test_the_band_plays_on_after_a_failure(output: str) -> None:
    assert [int(beat) for beat in re.findall(r"beat (\d)", output)] == list(range(1, 9))
    assert "beat 4: violin, drum\n" in output
    assert "beat 5: violin, drum, horn\n" in output
    assert "PANIC: a valve is stuck" in output
    assert re.search(r"critic +I heard it too: .* went down, PANIC", output)
    assert re.search(r"observer +on_actor_stop\(.*, PANIC\)", output)


def test_the_books_balance_and_the_speed_is_told(output: str) -> None:
    books = re.search(
        r"sent (\d+) = handled (\d+) \+ refused (\d+) \+ dead (\d+) \+ dropped (\d+) \+ waiting (\d+)", output
    )
    assert books is not None
    sent, *fates = map(int, books.groups())
    assert sent == sum(fates) > 0
    assert re.search(r"200,000 ping-pong messages in [\d.]+ s: [\d.]+ million a second\n$", output)
