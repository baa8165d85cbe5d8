"""Laws are about what the loop does, not about what it logs on the way: thousands of tracebacks help nobody."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    logger = logging.getLogger("bandstand.core")
    logger.disabled = True
    yield
    logger.disabled = False
