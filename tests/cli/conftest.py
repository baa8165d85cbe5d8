"""The command, run in this process, for the tests of the command line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from bandstand.__main__ import main

Run: TypeAlias = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run the command; return its exit code, and what it has printed."""

    def run(*arguments: str) -> tuple[int, str, str]:
        try:
            code: Any = main(arguments)
        except SystemExit as ended:
            code = ended.code
        seen = capsys.readouterr()
        return code, seen.out, seen.err

    return run
