"""Where a measurement writes what must survive."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

BUILD = Path(__file__).resolve().parent.parent / "build"


@contextmanager
def folder() -> Generator[Path]:
    """Make a folder on the disk that the checkout is on, and remove it. Not where temporary files are: that may be memory."""
    BUILD.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="bench-", dir=BUILD) as name:
        yield Path(name)
