"""Channels do the same in both modes: the same script gives the same transcript."""

from __future__ import annotations

import asyncio
import copy
import gc
import pickle
import warnings
import weakref
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.testing import VirtualClock
from tests.parity.builds import Build
from tests.parity.test_structures import outcome, same

# Steps on two channels, one of which may be a rendezvous.
STEPS = [
    "try_send", "try_send", "try_receive", "send", "send", "receive", "receive", "iterate",
    "select", "select", "cancel", "token", "close", "tick", "tick", "wait", "drop",
]  # fmt: skip


class Script:
    """Plays a script on one build, and writes down all that can be seen from outside."""

    def __init__(self, build: Build, capacities: list[Any]) -> None:
        kinds = {"unbounded": build.scope.UNBOUNDED, "conflated": build.scope.CONFLATED}
        self.select = build.scope.select
        self.new_token = build.scope.CancelToken
        self.channels = [
            build.scope.Channel(kinds.get(kind, kind), name=str(at)) for at, kind in enumerate(capacities)
        ]
        self.clock = VirtualClock()
        self.tasks: list[asyncio.Task[Any]] = []
        self.by_hand: list[Any] = []
        self.token = self.new_token()
        self.log: list[Any] = []
        self.count = 0

    def note(self, what: str, result: Any = None) -> None:
        books = [repr(channel.statistics()) for channel in self.channels]
        self.log.append((what, repr(result), books, [repr(channel) for channel in self.channels]))

    async def watched(self, number: int, operation: Any) -> None:
        try:
            result = await operation
        except (Exception, asyncio.CancelledError) as error:
            message = str(error) if "token" not in str(error) else ""
            self.note(f"{number} ended", (type(error).__name__, message))
            raise
        self.note(f"{number} done", result)

    def start(self, operation: Any) -> None:
        task = asyncio.get_running_loop().create_task(self.watched(len(self.tasks), operation))
        # Somebody has looked at what came of it.
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        self.tasks.append(task)

    async def step(self, step: str, value: int) -> None:
        channel = self.channels[value % 2]
        limits: dict[str, Any] = {"timeout": (None, None, 0, 0.001, 0.005)[value % 5]}
        if value % 7 == 0:
            limits["token"] = self.token
        self.count += 1
        if step == "try_send":
            self.note(step, outcome(channel.try_send, self.count))
        elif step == "try_receive":
            self.note(step, outcome(channel.try_receive, "none"))
        elif step == "send":
            self.start(channel.send(self.count, **limits))
        elif step == "receive":
            self.start(channel.receive(**limits))
        elif step == "iterate":
            self.start(channel.__anext__())
        elif step == "select":
            left, right = self.channels
            sides = [left.send(self.count), right.receive(), left.receive(), right.send(-self.count)]
            chosen = [side for at, side in enumerate(sides) if value >> at & 1] or sides[:2]
            self.start(self.select(*chosen, **limits))
        elif step == "cancel" and self.tasks:
            self.note(step, self.tasks[value % len(self.tasks)].cancel())
        elif step == "token":
            self.note(step, self.token.cancel("why not"))
            self.token = self.new_token()
        elif step == "close" and value % 5 == 0:
            self.note(step, channel.close())
        elif step == "drop":
            operation = channel.receive()
            self.note(step, outcome(next, operation) if value % 3 else outcome(operation.close))
            operation.close()
        elif step == "wait":
            await asyncio.sleep(value % 9 / 1000)
        else:
            await asyncio.sleep(0)
        self.note("after")

    async def main(self, steps: list[tuple[str, int]]) -> None:
        for step, value in steps:
            await self.step(step, value)
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        for channel in self.channels:
            while (item := channel.try_receive("none") if not channel.closed else "none") != "none":
                self.note("left", item)
        self.note("the end")


@pytest.mark.slow
@given(
    st.lists(st.sampled_from([0, 0, 1, 2, "unbounded", "conflated"]), min_size=2, max_size=2),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 1000)), max_size=60),
)
def test_channels(capacities: list[Any], steps: list[tuple[str, int]]) -> None:
    def play(build: Build) -> list[Any]:
        with warnings.catch_warnings():
            # Of tasks that were cancelled before they began.
            warnings.simplefilter("ignore", RuntimeWarning)
            script = Script(build, capacities)
            script.clock.run(script.main(steps))
            log = [line for line in script.log if "<Future" not in line[1]]
            del script
            gc.collect()
        return log

    same(play)


@pytest.mark.slow
@given(st.lists(st.tuples(st.sampled_from(["grow", "shrink", "burst"]), st.integers(1, 40)), max_size=30))
def test_elements_in_the_ring(steps: list[tuple[str, int]]) -> None:
    def play(build: Build) -> list[Any]:
        pipe = build["bandstand.scope._channel.ChannelCore"](-1, False, None)  # noqa: FBT003 -- by position in C
        log: list[Any] = []
        count = 0
        for step, number in steps:
            for _ in range(20 * number if step == "burst" else number):
                count += 1
                log.append(pipe.try_receive() if step == "shrink" else pipe.try_send(count))
            log.append((len(pipe), pipe.counters()))
        while (item := pipe.try_receive()) is not None:
            log.append(item)
        return log

    same(play)


VALUES: tuple[Any, ...] = (None, (), (1, 2), StopIteration(3), ValueError("x"), ValueError, 0, "", [1])


def test_values_pass_alike() -> None:
    def play(build: Build) -> list[str]:
        pipe = build["bandstand.scope._channel.ChannelCore"](1, False, None)  # noqa: FBT003 -- by position in C
        log: list[str] = []
        for value in VALUES:
            pipe.try_send(value)
            try:
                pipe.receive().send(None)
            except StopIteration as end:
                log.append(f"{end.value!r} {end.value is value}")
        return log

    assert len(same(play)) == len(VALUES)


ODD: tuple[Any, ...] = (None, True, 0, 2.5, -1, "x", float("nan"), 1 << 70, object)


def test_arguments_are_refused_alike() -> None:
    def play(build: Build) -> list[str]:
        new, select = build.scope.Channel, build.scope.select
        log = [outcome(new, odd) for odd in ODD]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            channel = new(1)
            for odd in ODD:
                log.append(outcome(partial(channel.receive, timeout=odd)))
                log.append(outcome(partial(channel.send, 1, token=odd)))
                log.append(outcome(select, odd))
            for refused in (pickle.dumps, copy.copy, copy.deepcopy):
                log += [outcome(refused, channel), outcome(refused, channel.receive())]
            operation = channel.receive()
            log += [outcome(setattr, thing, "anything", 1) for thing in (channel, operation)]
            log += [outcome(weakref.ref, operation), outcome(bool, operation), outcome(bool, channel)]
            log += [repr(operation), repr(channel), outcome(len, channel)]
            del operation
        return log

    assert "TypeError" in same(play)
