"""Frames that are made without their constructors are the same as those made by them."""

from __future__ import annotations

import gc
import pickle
import sys
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from bandstand.bus.frame import Frame, Metadata, new_frame

DATA = Raw(b'{"key":"a"}')


@pytest.mark.parametrize("causation", [None, "01CAUSE"])
@pytest.mark.parametrize("correlation", [None, "01GROUP"])
def test_a_frame_made_by_its_slots_is_equal(causation: str | None, correlation: str | None) -> None:
    made = new_frame("reply", "Memory.Get", DATA, "01ID", 1_767_910_000_000, causation, correlation)
    metadata = Metadata("01ID", 1_767_910_000_000, causation, correlation)
    expected = Frame(kind="reply", type="Memory.Get", data=DATA, metadata=metadata)
    assert type(made) is Frame
    assert made == expected
    assert repr(made) == repr(expected)
    assert hash(made.metadata) == hash(metadata)
    assert msgspec.json.encode(made) == msgspec.json.encode(expected)
    assert msgspec.structs.asdict(made) == msgspec.structs.asdict(expected)
    assert pickle.loads(pickle.dumps(made.metadata)) == metadata
    assert gc.is_tracked(made) == gc.is_tracked(expected)
    assert sys.getsizeof(made) == sys.getsizeof(expected)
    any_frame: Any = made
    with pytest.raises(AttributeError):
        any_frame.kind = "event"


def test_frames_made_by_their_slots_release_what_they_hold() -> None:
    name, cause = str(10**20), str(10**21)
    before = sys.getrefcount(name), sys.getrefcount(cause), sys.getrefcount(DATA)
    frames = [new_frame("event", "Any.Thing", DATA, name, 1.5, cause, None) for _ in range(1000)]
    assert sys.getrefcount(name) == before[0] + 1000
    del frames
    assert (sys.getrefcount(name), sys.getrefcount(cause), sys.getrefcount(DATA)) == before
