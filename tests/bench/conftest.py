"""What the tests of the benchmark leave behind: nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from bench import otp


@pytest.fixture(autouse=True, scope="module")
def _no_machine_is_left() -> Iterator[None]:  # pyright: ignore[reportUnusedFunction]  # pytest's
    """The machine of Erlang that a module has measured with ends with it: others look for processes that were left."""
    yield
    otp.end()
