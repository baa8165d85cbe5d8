"""Frames that go to many are written once, by whichever node is at it."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from bandstand import _build_mode
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.wire import write_frame

if _build_mode.mode() == "compiled":
    pytest.skip("looks between two bytecodes; compiled there are none there", allow_module_level=True)

from bandstand.bus.adapters.ndjson import write_event  # compiled it is nothing that can be imported


def event(name: str) -> Frame:
    return Frame(kind="event", type=f"Cast.{name}", metadata=Metadata(id=name, timestamp=0))


@pytest.mark.parametrize("stop", range(1, 12))
def test_nodes_of_two_threads_never_write_each_others_events(stop: int) -> None:
    """The interpreter may change threads before any line."""
    ours, theirs = event("Ours"), event("Theirs")
    steps = 0

    def trace(frame: Any, what: str, _: object) -> Any:
        nonlocal steps
        if frame.f_code.co_name != "write_event":
            return None
        steps += what == "line"
        if what == "line" and steps == stop:
            # As another thread would.
            assert write_event(theirs) == write_frame(theirs)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        written = write_event(ours)
    finally:
        sys.settrace(before)
    assert written == write_frame(ours)
    assert write_event(ours) == write_frame(ours)
    assert write_event(theirs) == write_frame(theirs)
