"""Calling a handle: arguments are bound as in a plain call; a wrong call raises in the caller and sends nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from bandstand.actor import ActorSystem
from tests.actor.answers import answer
from tests.actor.shapes import Shapes
from tests.core.support import python

pytestmark = pytest.mark.guarantee("G58")


def test_a_default_is_the_object_itself(loop: ActorSystem) -> None:
    got: Any = answer(loop, loop.spawn(Shapes).defaults())
    assert got[1] is cast("Any", Shapes().defaults())[1]
    thing: list[int] = []
    handle = loop.spawn(Shapes)
    assert answer(loop, handle.one(thing)) is thing
    assert cast("Any", answer(loop, handle.two(thing, b=thing)))[0] is thing


TWINS: dict[str, Callable[[Shapes], Callable[..., Any]]] = {
    "call": lambda handle: handle.put,
    "try_send": lambda handle: handle.put.try_send,
    "when_room": lambda handle: handle.put.when_room,
    "ask": lambda handle: handle.mixed,
    "within": lambda handle: handle.mixed.within(0.005),
    "blocking": lambda handle: handle.mixed.blocking,
    "future": lambda handle: handle.mixed.future,
}


@pytest.mark.parametrize("twin", TWINS.values(), ids=TWINS)
def test_a_wrong_call_of_try_send_or_when_room_raises_type_error(
    loop: ActorSystem, twin: Callable[[Shapes], Callable[..., Any]]
) -> None:
    """Also for `try_send`: it returns False only for the state of the actor."""
    handle = loop.spawn(Shapes)
    for args, kwargs in (((), {}), ((1, 2, 3), {}), ((1,), {"x": 1}), ((1,), {"a": 1})):
        with pytest.raises(TypeError, match=r"(put|mixed)\(\) "):
            twin(handle)(*args, **kwargs)
    assert loop.statistics().sent == 0
    handle.kill()
    with pytest.raises(TypeError):
        twin(handle)()


@pytest.mark.slow
def test_misuse_of_a_handle_method_raises_and_does_not_crash() -> None:
    """In a separate process: misuse could crash it."""
    done = python(
        "from bandstand.actor import Actor, ActorSystem, ask, tell\n"
        "class One(Actor):\n"
        "    @tell\n"
        "    def named(self, *, c: int = 1) -> None: ...\n"
        "    @tell\n"
        "    def none(self) -> None: ...\n"
        "    @tell\n"
        "    def one(self, a: int) -> None: ...\n"
        "    @ask\n"
        "    def asked(self, *rest: int) -> int: ...\n"
        "with ActorSystem() as loop:\n"
        "    kind = type(loop.spawn(One))\n"
        "    for name in ('named', 'none', 'one', 'asked'):\n"
        "        for arguments in ((), (5,), (None, 5), (One(), 5), (kind, 5)):\n"
        "            try:\n"
        "                getattr(kind, name)(*arguments)\n"
        "            except (TypeError, AttributeError):\n"
        "                pass\n"
        "            else:\n"
        "                raise SystemExit(f'{name}{arguments} was accepted')\n"
        "    assert loop.statistics().sent == 0\n"
        "print('well')\n"
    )
    assert (done.returncode, done.stdout) == (0, "well\n"), done.stderr
