"""Fixtures for loops that are destroyed at the end of their test, in virtual time, on the event loop of the lane."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from bandstand.core import Clock, Loop, LoopConfig
from bandstand.testing import VirtualClock, leaks_of
from tests.core.support import HostFactory, LoopMaker, RecordingObserver, check_statistics, guarded

L = TypeVar("L", bound=Loop)


@pytest.fixture
def clock(bandstand_clock: VirtualClock) -> VirtualClock:
    return bandstand_clock


@contextmanager
def loops_of(
    kind: Callable[..., L], clock: VirtualClock, loop_factory: HostFactory
) -> Generator[Callable[..., L]]:
    """Make loops with config fields as keywords; `clock=` for another clock than the virtual one, `options=` for what
    else the kind of loop takes."""
    loops: list[L] = []
    escaped: list[dict[str, Any]] = []
    factory = guarded(loop_factory, escaped)

    def make(clock: Clock = clock, options: dict[str, Any] | None = None, **fields: Any) -> L:
        fields.setdefault("loop_factory", factory)
        loop = kind(LoopConfig(**fields), clock=clock, **(options or {}))
        loops.append(loop)
        return loop

    yield make
    for loop in loops:
        loop.destroy()
        check_statistics(loop)
    # A coroutine that ignores its cancellation is given up, and may well be in flight still: some tests are about that.
    leaks = [leak for loop in loops for leak in leaks_of(loop) if "in flight" not in leak]
    assert leaks == []
    assert escaped == [], "an exception escaped into the event loop"


@pytest.fixture
def make_loop(clock: VirtualClock, loop_factory: HostFactory) -> Iterator[LoopMaker]:
    with loops_of(Loop, clock, loop_factory) as make:
        yield make


@pytest.fixture
def loop(make_loop: LoopMaker) -> Loop:
    return make_loop()


@pytest.fixture
def diary(loop: Loop) -> RecordingObserver:
    """An observer that writes everything down, already set."""
    diary = RecordingObserver()
    loop.set_observer(diary)
    return diary
