"""Loops that are dropped, initialized twice, or created without their constructor."""

from __future__ import annotations

import copy
import gc
import os
import pickle
from pathlib import Path
from typing import Any, cast

import pytest

from bandstand.core import Context, Loop, LoopConfig
from bandstand.errors import LoopBusyError
from tests.core.support import idle, in_thread


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.guarantee("G274")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to count descriptors")
def test_a_loop_that_has_run_and_is_dropped_warns_and_leaks_nothing() -> None:
    def use() -> None:
        loop = Loop()
        loop.send(loop.spawn(idle), 1)
        loop.run(until_idle=True)

    def use_and_drop() -> None:
        use()
        gc.collect()

    with pytest.warns(ResourceWarning, match="not destroyed|unclosed event loop"):
        use_and_drop()  # the first event loop of a process opens descriptors that stay
    before = descriptors()
    with pytest.warns(ResourceWarning, match="not destroyed|unclosed event loop"):
        use_and_drop()
    assert descriptors() == before


@pytest.mark.guarantee("G274")
def test_no_warning_for_an_unused_loop(recwarn: pytest.WarningsRecorder) -> None:
    Loop().spawn(idle)
    loop = Loop()
    loop.send(loop.spawn(idle), 1)
    loop.run(until_idle=True)
    loop.destroy()
    del loop
    gc.collect()
    assert [str(each.message) for each in recwarn] == []


@pytest.mark.guarantee("G273")
def test_a_loop_cannot_be_made_twice(loop: Loop) -> None:
    actor = loop.spawn(idle)
    with pytest.raises(LoopBusyError, match="made already"):
        loop.__init__(LoopConfig())  # type: ignore[misc]
    loop.send(actor, 1)
    assert loop.poll_once() == 1


@pytest.mark.guarantee("G273")
def test_a_loop_without_its_constructor_raises_whatever_is_called() -> None:
    class Skipping(Loop):
        def __init__(self) -> None:
            pass

    for made in (Skipping(), Loop.__new__(Loop)):
        for call in (
            lambda made=made: made.spawn(idle),
            lambda made=made: made.send(1, 2),
            lambda made=made: made.run(),
            lambda made=made: made.poll_once(),
            lambda made=made: made.destroy(),
            lambda made=made: made.statistics(),
        ):
            with pytest.raises(Exception):  # noqa: B017, PT011  # which one is not promised
                cast("Any", call)()


@pytest.mark.guarantee("G273")
@pytest.mark.parametrize("name", ["send", "send_after", "spawn", "stop_actor", "status", "cancel_timer"])
@pytest.mark.parametrize("self_", [None, 1, object()], ids=repr)
def test_a_method_called_on_a_stranger_is_a_type_error(name: str, self_: object, loop: Loop) -> None:
    with pytest.raises((TypeError, AttributeError)):
        getattr(Loop, name)(self_, 1, 2, 3)


def copies(what: Any) -> list[Any]:
    return [
        lambda: copy.copy(what),
        lambda: copy.deepcopy(what),
        *[lambda protocol=protocol: pickle.dumps(what, protocol) for protocol in range(6)],
    ]


@pytest.mark.guarantee("G275")
def test_what_has_an_identity_is_neither_copied_nor_pickled(loop: Loop) -> None:
    contexts: list[Context[Any]] = []

    def keep(ctx: Context[Any], data: object) -> None:
        contexts.append(ctx)

    actor, other = loop.spawn(keep), loop.spawn(idle)
    loop.send(actor, 1)
    loop.poll_once()
    for what in (loop.send_after(actor, 1.0, "x"), loop.monitor(other, actor), actor, contexts[0], loop):
        for attempt in copies(what):
            with pytest.raises(TypeError, match="cannot be pickled or copied"):
                attempt()


def test_the_thread_that_drops_it_may_be_any() -> None:
    held = [Loop()]
    held[0].send(held[0].spawn(idle), 1)
    held[0].run(until_idle=True)

    def drop() -> None:
        held.clear()
        gc.collect()

    with pytest.warns(ResourceWarning):
        in_thread(drop)
    assert not held
