"""Calling a handle: arguments are bound as in a plain call; a wrong call raises in the caller and sends nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from bandstand.actor import ActorSystem, is_alive
from tests.actor.answers import answer, outcome
from tests.actor.shapes import Shapes
from tests.core.support import python

pytestmark = pytest.mark.guarantee("G58")

Call = Callable[[Any], Any]

CALLS: dict[str, Call] = {
    "nothing": lambda it: it.nothing(),
    "one": lambda it: it.one(1),
    "one, None": lambda it: it.one(None),
    "one, a tuple": lambda it: it.one((1, 2)),
    "one, by name": lambda it: it.one(a=1),
    "two": lambda it: it.two(1, 2),
    "two, default": lambda it: it.two(1),
    "two, by name": lambda it: it.two(b=1, a=2),
    "two, half by name": lambda it: it.two(1, b=2),
    "defaults": lambda it: it.defaults(),
    "positional": lambda it: it.positional(1),
    "positional, half by name": lambda it: it.positional(1, b=3),
    "named": lambda it: it.named(a=1),
    "mixed": lambda it: it.mixed(1),
    "mixed, all": lambda it: it.mixed(1, 5, c=6),
    "mixed, by name": lambda it: it.mixed(c=6, b=5, a=1),
    "rest, none": lambda it: it.rest(1),
    "rest": lambda it: it.rest(1, 2, 3),
    "others, none": lambda it: it.others(),
    "others": lambda it: it.others(x=1, y=2),
    "all": lambda it: it.all(1, 2, 3, 4, c=5, d=6),
    "all, and the name of one by position": lambda it: it.all(1, a=2),
    "names that we use": lambda it: it.homonyms(
        handle=1, port=2, method=3, arguments=4, named=5, binder=6, data=7, ms=8
    ),
    "self by name, where that is free": lambda it: it.aloof(self=1),
}

MISTAKES: dict[str, Call] = {
    "nothing takes one": lambda it: it.nothing(1),
    "nothing takes a name": lambda it: it.nothing(a=1),
    "one takes none": lambda it: it.one(),
    "one takes two": lambda it: it.one(1, 2),
    "one twice": lambda it: it.one(1, a=2),
    "one misspelt": lambda it: it.one(aa=1),
    "one and unknown": lambda it: it.one(1, x=2),
    "two takes none": lambda it: it.two(),
    "two takes three": lambda it: it.two(1, 2, 3),
    "positional by name": lambda it: it.positional(a=1),
    "named by position": lambda it: it.named(1),
    "named missing": lambda it: it.named(b=1),
    "mixed by position": lambda it: it.mixed(1, 2, 3),
    "rest missing": lambda it: it.rest(),
    "rest by name": lambda it: it.rest(1, rest=2),
    "others by position": lambda it: it.others(1, 2),
    "all missing": lambda it: it.all(b=1),
    "all twice": lambda it: it.all(1, 2, b=3),
    "self by name": lambda it: it.close(self=1),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_arguments_arrive_as_in_a_plain_call(loop: ActorSystem, call: Call) -> None:
    handle, plain = loop.spawn(Shapes), Shapes()
    assert answer(loop, call(handle)) == call(plain)


def test_a_default_is_the_object_itself(loop: ActorSystem) -> None:
    got: Any = answer(loop, loop.spawn(Shapes).defaults())
    assert got[1] is cast("Any", Shapes().defaults())[1]
    thing: list[int] = []
    handle = loop.spawn(Shapes)
    assert answer(loop, handle.one(thing)) is thing
    assert cast("Any", answer(loop, handle.two(thing, b=thing)))[0] is thing


@pytest.mark.parametrize("call", MISTAKES.values(), ids=MISTAKES)
@pytest.mark.spec("S11")
def test_a_wrong_call_raises_type_error_and_sends_nothing(loop: ActorSystem, call: Call) -> None:
    handle = loop.spawn(Shapes)
    with pytest.raises(TypeError) as plain:
        call(Shapes())
    with pytest.raises(TypeError) as caught:
        call(handle)
    # The method name is the same, except for the class in front of it, and none of ours shows.
    name = str(plain.value).partition("(")[0].removeprefix("Shapes.")
    assert str(caught.value).partition("(")[0].rpartition(".")[2] == name
    assert loop.statistics().sent == 0
    assert loop.ask_statistics().asked == 0
    loop.run(until_idle=True)
    assert is_alive(handle)


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


def test_all_forms_of_a_call_bind_alike(loop: ActorSystem) -> None:
    handle = loop.spawn(Shapes)
    handle.put(1)
    assert handle.put.try_send(b=1, a=2)
    landed = handle.put.when_room(3, c=5)
    kept = handle.put
    kept(4, 5)
    kept(6)
    assert answer(loop, handle.all_put()) == [(1, 2, 3), (2, 1, 3), (3, 2, 5), (4, 5, 3), (6, 2, 3)]
    assert outcome(landed) is None
    within = handle.mixed.within(0.01)
    first, second = within(1), within(2, c=9)
    assert [answer(loop, first), answer(loop, second)] == [(1, 2, 3), (2, 2, 9)]


def test_all_forms_of_a_call_bind_alike_from_another_thread(loop: ActorSystem) -> None:
    handle = loop.spawn(Shapes)
    futures: list[Any] = []

    def work() -> None:
        handle.put(1)
        handle.put(b=1, a=2)
        futures.append(handle.mixed.future(1, c=9))
        futures.append(handle.one.future(a=(5,)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert answer(loop, handle.all_put()) == [(1, 2, 3), (2, 1, 3)]
    assert [future.result(timeout=30) for future in futures] == [(1, 2, 9), (5,)]


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
