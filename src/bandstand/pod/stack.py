"""Where a thread is, for people who wonder why it does not answer."""

from __future__ import annotations

import sys
import threading
from traceback import extract_stack

__all__ = ("stack_of",)


def stack_of(native_id: int | None) -> str:
    """The innermost line that a thread of this process is at: "paint() in studio.py, line 12". Empty if there is no such thread."""
    for thread in threading.enumerate():
        if thread.native_id == native_id and native_id is not None:
            frames = sys._current_frames()  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # documented, and only called private
            frame = frames.get(thread.ident or 0)
            if frame is not None:
                innermost = extract_stack(frame)[-1]
                return f"{innermost.name}() in {innermost.filename}, line {innermost.lineno}"
    return ""
