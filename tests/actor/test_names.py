"""Names of messages: a few are taken, every other one is free, whatever we call things ourselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, id_of, is_alive, loop_of, tell
from bandstand.actor.declaration import RESERVED_NAMES
from bandstand.core import ExitReason
from bandstand.errors import DeclarationError
from tests.actor.answers import answer
from tests.actor.declaring import LOOSE, Book, class_with, loose_ask, nothing

pytestmark = pytest.mark.guarantee("G58")

marked = pytest.mark.parametrize("mark", LOOSE.values(), ids=LOOSE)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
@marked
def test_names_that_every_actor_has_are_no_messages(name: str, mark: Any) -> None:
    with pytest.raises(DeclarationError, match=rf"Made\.{name} is .*every actor has"):
        class_with(name, mark(nothing))


def test_everything_an_actor_offers_is_reserved() -> None:
    assert {name for name in dir(Actor) if not name.startswith("_")} <= RESERVED_NAMES


@pytest.mark.parametrize(
    "name", ["__init__", "__eq__", "__hash__", "__len__", "__call__", "__init_subclass__"]
)
def test_names_that_are_pythons_are_no_messages(name: str) -> None:
    with pytest.raises(DeclarationError, match=rf"Made\.{name}"):
        class_with(name, tell(nothing))


@pytest.mark.parametrize("name", ["__handle_kernel__", "__actor_handle__", "__actor_anything__"])
@pytest.mark.parametrize("value", [tell(nothing), nothing, 5], ids=["message", "method", "number"])
def test_names_that_are_ours_are_refused(name: str, value: object) -> None:
    with pytest.raises(DeclarationError, match=rf"Made\.{name}"):
        class_with(name, value)


# What a handle has of its own, and what a user might call something.
ORDINARY = (
    "name", "actor", "loop", "place", "asks", "ask_ms", "key", "renew", "refresh", "kind", "handle", "method", "port", "call",
    "data", "binder", "self", "cls", "schema", "ask", "try_send", "when_room", "within", "answer", "result", "state", "send",
    "run", "close", "id", "type", "print", "_kind", "_handle", "_private", "_me", "_schema", "_brood", "_ask_ms", "_adopt",
)  # fmt: skip


def echo(self: Any, n: int) -> Any:
    return n, self.me


def refused_or(made: Callable[[], Any], name: str) -> Any:
    """A class, or None if it was refused in so many words: a private name may be taken, but not in silence."""
    try:
        return made()
    except DeclarationError as error:
        if not name.startswith("_") or name not in str(error):
            raise
        return None


@pytest.mark.parametrize("name", ORDINARY)
def test_a_message_may_have_any_other_name(loop: ActorSystem, name: str) -> None:
    kind = refused_or(lambda: class_with(name, loose_ask(echo)), name)
    if kind is None:
        return
    handle = loop.options(name="someone").spawn(kind)
    assert answer(loop, getattr(handle, name)(5)) == (5, handle)
    assert answer(loop, getattr(handle, name).within(5)(n=6)) == (6, handle)
    check_handle(loop, handle)


@pytest.mark.parametrize("name", ORDINARY)
def test_what_is_no_message_may_have_any_other_name(loop: ActorSystem, name: str) -> None:
    made = refused_or(lambda: class_with(name, "text", Book), name)
    if made is None:
        return
    handle = loop.options(name="someone").spawn(made)
    assert answer(loop, handle.low_ask()) == 1
    with pytest.raises(AttributeError):
        getattr(handle, name)
    check_handle(loop, handle)


def check_handle(loop: ActorSystem, handle: Any) -> None:
    """Assert that a handle is one: nothing of it is covered."""
    assert loop_of(handle) is loop
    assert is_alive(handle) is True
    assert handle == handle.me
    assert hash(handle) == hash(handle.me)
    assert int(id_of(handle)) > 0
    assert "'someone'" in repr(handle)
    assert handle.stop() is None
    assert answer(loop, handle.ended()) is ExitReason.NORMAL
