"""The error of a message to an actor that has ended says how it ended."""

from __future__ import annotations

import gc
import logging
import re
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, id_of, tell
from bandstand.core import Context, Verdict
from bandstand.errors import NoSuchActorError
from tests.core.support import settle

pytestmark = pytest.mark.guarantee("G327")


class Till(Actor):
    @tell
    def fail(self, what: Any) -> None:
        raise ValueError(what)

    @tell
    def finish(self) -> None:
        self.stop()


class Payload:
    """An argument that can be watched."""


def error_of(till: Till) -> str:
    with pytest.raises(NoSuchActorError) as caught:
        till.finish()
    return str(caught.value)


ENDS: dict[str, tuple[Callable[[Till], object], str]] = {
    "failed": (lambda till: till.fail("stuck"), "has ended with reason PANIC (ValueError: stuck)"),
    "stopped": (lambda till: till.finish(), "has ended normally"),
    "killed": (lambda till: till.kill(), "has ended with reason FAIL (ActorKilledError: "),
}


@pytest.mark.parametrize(("end", "words"), ENDS.values(), ids=ENDS)
def test_how_an_actor_has_ended(loop: ActorSystem, end: Callable[[Till], object], words: str) -> None:
    till = loop.spawn(Till)
    end(till)
    settle(loop)
    assert f"its actor {words}" in error_of(till)
    with pytest.raises(NoSuchActorError, match=re.escape(f"it {words}")):
        loop.send(id_of(till), 1)


def test_raw_actors(loop: ActorSystem) -> None:
    def fail(ctx: Context[None], data: object) -> Verdict:
        return Verdict.FAIL

    actor = loop.spawn_raw(fail)
    loop.send(actor, 1)
    settle(loop)
    with pytest.raises(NoSuchActorError, match=r"it has ended with reason FAIL$"):
        loop.send(actor, 1)
    with pytest.raises(NoSuchActorError, match=r"it has ended with reason FAIL$"):
        loop.stop_actor(actor)
    with pytest.raises(NoSuchActorError, match="it has ended, or never existed"):
        loop.send(int(actor), 1)


def test_an_actor_that_is_stopping(loop: ActorSystem) -> None:
    errors: list[str] = []

    def stop_first(ctx: Context[None], data: object) -> None:
        loop.stop_actor(ctx.self_id)
        with pytest.raises(NoSuchActorError) as caught:
            loop.send(ctx.self_id, 1)
        errors.append(str(caught.value))

    loop.send(loop.spawn_raw(stop_first), 1)
    settle(loop)
    assert errors[0].endswith("it is stopping")


@pytest.mark.parametrize("what", [Payload(), "x" * 1000, ("a", "b")], ids=["object", "long", "several"])
def test_the_id_keeps_no_object_of_the_program(loop: ActorSystem, what: object) -> None:
    till = loop.spawn(Till)
    till.fail(what)
    settle(loop)
    assert error_of(till).endswith("has ended with reason PANIC (ValueError)")


def test_the_cause_is_not_kept(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    payload = Payload()
    watch = weakref.ref(payload)
    till = loop.spawn(Till)
    till.fail(payload)
    del payload
    with caplog.at_level(logging.CRITICAL, logger="bandstand.core"):
        settle(loop)
    gc.collect()
    assert watch() is None
    assert not id_of(till).is_alive
