"""Compares a text with the file that records it, so that a change of the text is seen in review.

To write the files again after a change, run the test with RENEW_TEXTS=1, and look at the difference:

    RENEW_TEXTS=1 .venv/bin/python -m pytest tests/cli/test_texts.py
    git diff
"""

from __future__ import annotations

import os
from pathlib import Path


def compare(path: Path, text: str, *, test: str) -> None:
    """Compare a text with its file, or write the file if `RENEW_TEXTS` is set."""
    if os.environ.get("RENEW_TEXTS"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    recorded = path.read_text("utf-8") if path.exists() else ""
    assert text == recorded, f"{path} is out of date: to renew it, run RENEW_TEXTS=1 python -m pytest {test}"
