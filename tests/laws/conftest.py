"""Laws are about what the runtime does, not about what it logs: nobody reads thousands of tracebacks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

LOGGERS = [f"bandstand.{name}" for name in ("core", "supervision", "scope", "bus", "shutdown")]


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in [*LOGGERS, "asyncio"]]
    for logger in loggers:
        logger.disabled = True
    yield
    for logger in loggers:
        logger.disabled = False
