"""Logging never raises in the code that logs."""

from __future__ import annotations

import io
import logging
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from bandstand.core.logs import SafeLogger

safe = SafeLogger("bandstand.tests.logs")
pytestmark = [pytest.mark.once, pytest.mark.guarantee("G283")]


class Broken:
    """Cannot be shown."""

    def __repr__(self) -> str:
        raise ValueError("no repr")

    __str__ = __repr__


class Breaks(logging.Handler):
    """Raises what it was given, for each record."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self.error = error

    def emit(self, record: logging.LogRecord) -> None:
        raise self.error


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("bandstand.tests.logs")
    logger.propagate = False
    yield logger
    logger.handlers.clear()
    logger.filters.clear()
    logger.propagate = True


def test_the_line_has_its_traceback_and_the_place_of_its_caller(logger: logging.Logger) -> None:
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(logging.Formatter("%(levelname)s %(filename)s %(funcName)s %(child)s %(message)s"))
    logger.addHandler(handler)
    error = ValueError("inner")
    safe.warning("%s ended with %d", "it", 7, exc_info=error, extra={"child": "abc"})
    first, *rest = text.getvalue().splitlines()
    place = "test_the_line_has_its_traceback_and_the_place_of_its_caller"
    assert first == f"WARNING test_safe_logging.py {place} abc it ended with 7"
    assert rest == ["ValueError: inner"]


def test_an_exception_that_cannot_be_shown_has_a_line_all_the_same(logger: logging.Logger) -> None:
    class HostileError(ValueError):
        @property
        def __cause__(self) -> Any:  # type: ignore[override]
            raise KeyError("no cause")

    text = io.StringIO()
    logger.addHandler(logging.StreamHandler(text))
    safe.error("it failed", exc_info=HostileError(Broken()))
    assert text.getvalue().startswith("it failed\nHostileError: <HostileError: its str() raised ValueError>")


@pytest.mark.parametrize("error", [ValueError("no"), RecursionError(), GeneratorExit()], ids=repr)
def test_a_log_handler_that_raises_does_not_raise(logger: logging.Logger, error: BaseException) -> None:
    def broken(_record: logging.LogRecord) -> bool:
        raise error

    logger.addHandler(Breaks(error))
    safe.error("words")
    logger.handlers.clear()
    logger.addFilter(broken)
    safe.error("words")


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(3)], ids=repr)
def test_ctrl_c_gets_through_a_handler_that_blocks(logger: logging.Logger, error: BaseException) -> None:
    logger.addHandler(Breaks(error))
    with pytest.raises(type(error)):
        safe.error("words")


@pytest.mark.parametrize("stream", [None, "closed"])
def test_a_closed_stderr(logger: logging.Logger, monkeypatch: pytest.MonkeyPatch, stream: str | None) -> None:
    gone = io.StringIO()
    gone.close()
    monkeypatch.setattr(sys, "stderr", None if stream is None else gone)
    logger.addHandler(logging.StreamHandler(gone))
    safe.error("words", exc_info=ValueError("no"))
    logger.handlers.clear()
    safe.error("words", exc_info=ValueError("no"))


def test_an_argument_that_cannot_be_shown_is_replaced(logger: logging.Logger) -> None:
    text = io.StringIO()
    logger.addHandler(logging.StreamHandler(text))
    safe.error("%r and %s", Broken(), Broken())
    shown = "<Broken: its repr() raised ValueError> and <Broken: its str() raised ValueError>\n"
    assert text.getvalue() == shown


def test_a_record_with_wrong_arguments_is_lost(
    logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.addHandler(logging.StreamHandler())
    safe.error("too %s few %s", "arguments")
    capsys.readouterr()
