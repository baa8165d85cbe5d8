"""Names of messages and attributes: a few are reserved, all others are free."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, data, id_of, is_alive, loop_of
from bandstand.actor.declaration import RESERVED_NAMES
from bandstand.core import ExitReason
from bandstand.errors import BadDeclaration
from tests.actor.answers import answer
from tests.actor.declaring import LOOSE, Book, class_with, loose_ask, nothing

pytestmark = pytest.mark.guarantee("G58")

every_decorator = pytest.mark.parametrize("decorator", LOOSE.values(), ids=LOOSE)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
@every_decorator
def test_reserved_names_cannot_be_messages(name: str, decorator: Any) -> None:
    with pytest.raises(BadDeclaration, match=rf"Made\.{name} is .*every actor has"):
        class_with(name, decorator(nothing))


def test_every_public_name_of_actor_is_reserved() -> None:
    assert {name for name in dir(Actor) if not name.startswith("_")} <= RESERVED_NAMES


@pytest.mark.parametrize(
    "name", ["__init__", "__eq__", "__hash__", "__len__", "__call__", "__init_subclass__"]
)
def test_special_methods_cannot_be_messages(name: str) -> None:
    with pytest.raises(BadDeclaration, match=rf"Made\.{name}"):
        class_with(name, data(nothing))


@pytest.mark.parametrize("name", ["_bs_loop", "__actor_handle__", "__actor_anything"])
@pytest.mark.parametrize("value", [data(nothing), nothing, 5], ids=["message", "method", "number"])
def test_names_with_a_reserved_prefix_are_refused(name: str, value: object) -> None:
    with pytest.raises(BadDeclaration, match=rf"Made\.{name}"):
        class_with(name, value)


# Names that handles use internally, and names that users might choose.
ORDINARY = (
    "name", "actor", "loop", "place", "asks", "ask_ms", "key", "renew", "refresh", "kind", "handle", "method", "port", "call",
    "data", "binder", "self", "cls", "schema", "ask", "try_send", "when_room", "within", "answer", "result", "state", "send",
    "run", "close", "id", "type", "print", "_kind", "_handle", "_private", "_me", "_schema", "_children", "_runtime", "_ask_ms",
)  # fmt: skip


def echo(self: Any, n: int) -> Any:
    return n, self.me


def refused_or(made: Callable[[], Any], name: str) -> Any:
    """Return the class, or None if it was refused with an error: a private name may be reserved, but not silently."""
    try:
        return made()
    except BadDeclaration as error:
        if not name.startswith("_") or name not in str(error):
            raise
        return None


@pytest.mark.parametrize("name", ORDINARY)
def test_a_message_may_have_any_other_name(loop: Loop, name: str) -> None:
    kind = refused_or(lambda: class_with(name, loose_ask(echo)), name)
    if kind is None:
        return
    handle = loop.options(name="someone").spawn(kind)
    assert answer(loop, getattr(handle, name)(5)) == (5, handle)
    assert answer(loop, getattr(handle, name).within(5)(n=6)) == (6, handle)
    check_handle(loop, handle)


@pytest.mark.parametrize("name", ORDINARY)
def test_an_attribute_may_have_any_other_name(loop: Loop, name: str) -> None:
    made = refused_or(lambda: class_with(name, "text", Book), name)
    if made is None:
        return
    handle = loop.options(name="someone").spawn(made)
    assert answer(loop, handle.low_ask()) == 1
    with pytest.raises(AttributeError):
        getattr(handle, name)
    check_handle(loop, handle)


def check_handle(loop: Loop, handle: Any) -> None:
    """Assert that a handle still works: no message hides a part of it."""
    assert loop_of(handle) is loop
    assert is_alive(handle) is True
    assert handle == handle.me
    assert hash(handle) == hash(handle.me)
    assert int(id_of(handle)) > 0
    assert "'someone'" in repr(handle)
    assert handle.stop() is None
    assert answer(loop, handle.ended()) is ExitReason.NORMAL
