"""The text of `StartError` in nested supervisors: the path and the root cause, each once."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem
from bandstand.core import Context, Loop
from bandstand.errors import StartError
from bandstand.supervision import AnySupervisorSpec, ChildSpec, SupervisorSpec, spawn_supervisor
from tests.core.support import Boom, idle, settle
from tests.supervision.helpers import child, crash, supervise

pytestmark = pytest.mark.guarantee("G280")


def nested(depth: int, init: Any, name: str = "level") -> SupervisorSpec:
    run: AnySupervisorSpec = SupervisorSpec(children=[ChildSpec("leaf", idle, init=init)])
    for level in range(depth - 1, 0, -1):
        run = SupervisorSpec(children=[ChildSpec(f"{name} {level}", run)])
    assert isinstance(run, SupervisorSpec)
    return run


def fails(ctx: Context[None]) -> None:
    raise Boom("it's broken")


def fail_itself(ctx: Context[Any]) -> None:
    ctx.loop.fail_actor(ctx.self_id, "mine")


async def fails_slowly(ctx: Context[None]) -> None:
    fails(ctx)


def failure_of(loop: Loop, spec: SupervisorSpec) -> StartError:
    def start() -> None:
        spawn_supervisor(loop, spec)
        loop.run()

    with pytest.raises(StartError) as caught:
        start()
    return caught.value


def test_one_level(loop: Loop) -> None:
    error = failure_of(loop, nested(1, fails))
    assert str(error) == "child 'leaf' of supervisor 'root' did not start: Boom(\"it's broken\")"
    assert error.path == ("leaf",)


@pytest.mark.parametrize("init", [fails, fails_slowly])
def test_several_levels(loop: Loop, init: Any) -> None:
    error = failure_of(loop, nested(4, init))
    assert str(error) == (
        "child 'level 1' of supervisor 'root' did not start, because 'level 1/level 2/level 3/leaf' did not: "
        'Boom("it\'s broken")'
    )
    assert error.path == ("level 1", "level 2", "level 3", "leaf")
    assert isinstance(error.root_cause, Boom)
    cause: BaseException | None = error
    for _ in range(4):
        assert isinstance(cause, StartError)
        cause = cause.__cause__
    assert cause is error.root_cause


def test_the_text_grows_by_a_name_a_level(loop: Loop) -> None:
    lengths = [len(str(failure_of(loop, nested(depth, fails)))) for depth in (10, 11, 49, 50)]
    assert lengths[1] - lengths[0] == len("level 9/") + 1
    assert lengths[3] - lengths[2] == len("level 49/")


def test_the_text_is_bounded(loop: Loop) -> None:
    def fails_at_length(ctx: Context[None]) -> None:
        raise Boom("x" * 1_000_000)

    error = failure_of(loop, nested(50, fails_at_length, "n" * 10_000))
    assert len(str(error)) < 20_000, "the outer name, a part of the way, and a part of the cause"
    assert len(repr(error)) < 40_000


def test_it_survives_pickling(loop: Loop) -> None:
    error = failure_of(loop, nested(3, fails))
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == str(error)
    assert again.path == error.path


def test_actors_that_start_actors() -> None:
    class Outer(Actor):
        def __init__(self, left: int) -> None:
            self.left = left

        def on_start(self) -> None:
            if self.left == 0:
                raise Boom("it's broken")
            self.spawn(Outer, self.left - 1)

    with ActorSystem() as loop:
        texts: list[str] = []
        for depth in (0, 1, 2, 20):
            with pytest.raises(StartError) as caught:
                loop.options(name="top").spawn(Outer, depth)
            texts.append(str(caught.value))
            assert isinstance(caught.value.root_cause, Boom)
        name = Outer.__qualname__
        assert texts[0] == f'{name} top did not start: its on_start() raised Boom("it\'s broken")'
        assert texts[1] == (
            f"{name} top did not start, because 'top/{name}' did not: its on_start() raised Boom(\"it's broken\")"
        )
        assert len(texts[3]) < 4_000


@pytest.mark.guarantee("G46")
def test_a_failed_start_has_its_own_cause_and_not_an_older_one(loop: Loop) -> None:
    starts = 0

    def init(ctx: Context[Any]) -> None:
        nonlocal starts
        starts += 1
        if starts == 2:
            raise ValueError("old")

    tree = supervise(loop, child("a", init=init))
    loop.send(tree.address("a"), crash)
    settle(loop)
    assert starts == 3
    with pytest.raises(StartError) as caught:
        tree.start_child(child("b", init=fail_itself))
    assert "mine" in str(caught.value.__cause__)
    assert "old" not in str(caught.value)


@pytest.mark.guarantee("G46")
def test_a_failed_start_that_was_raised_is_not_logged(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    def init(ctx: Context[Any]) -> None:
        raise Boom("no")

    with pytest.raises(StartError):
        supervise(loop, child("a"), child("b", init=init))
    loop.run(until_idle=True)
    assert [line.getMessage() for line in caplog.records] == []
