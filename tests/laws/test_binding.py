"""Arguments of a message: for any signature and call, the handler gets the same arguments, or the caller the same `TypeError`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, Signature
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from bandstand.actor import Actor, ActorSystem, ask, is_alive, tell
from bandstand.core import LoopConfig
from bandstand.testing import VirtualClock
from tests.actor.answers import outcome
from tests.core.support import check_statistics, settle

# Some are names that a binder, or whoever calls it, could have itself.
NAMES = ("a", "b", "c", "handle", "data", "args", "_default_a", "method", "n")
values = st.integers(0, 9)


@dataclass(frozen=True)
class Shape:
    """A signature, and methods with it that return or record their arguments."""

    me: str
    parameters: tuple[Parameter, ...]
    is_apart: bool

    @property
    def received(self) -> str:
        return "{" + ", ".join(f"{p.name!r}: {p.name}" for p in self.parameters) + "}"

    def method(self, body: str, seen: list[dict[str, Any]]) -> Callable[..., Any]:
        whole = str(Signature([self.own, *self.parameters]))
        return self.compile(f"def call{whole}:\n    {body.format(self.received)}\n", seen)

    @property
    def own(self) -> Parameter:
        before = self.is_apart or any(p.kind is Parameter.POSITIONAL_ONLY for p in self.parameters)
        return Parameter(self.me, Parameter.POSITIONAL_ONLY if before else Parameter.POSITIONAL_OR_KEYWORD)

    @staticmethod
    def compile(source: str, seen: list[dict[str, Any]]) -> Callable[..., Any]:
        namespace: dict[str, Any] = {"seen": seen}
        exec(source, namespace)  # what the strategy wrote
        made: Callable[..., Any] = namespace["call"]
        return made


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, max_size=6))
    by_position = draw(st.integers(0, len(names)))
    alone = draw(st.integers(0, by_position))
    first_default = draw(st.integers(0, by_position))
    parameters: list[Parameter] = []
    for at, name in enumerate(names):
        kind: Any = Parameter.KEYWORD_ONLY
        if at < by_position:
            kind = Parameter.POSITIONAL_ONLY if at < alone else Parameter.POSITIONAL_OR_KEYWORD
        has_default = at >= first_default if at < by_position else draw(st.booleans())
        parameters.append(Parameter(name, kind, default=100 + at if has_default else Parameter.empty))
    if draw(st.booleans()):
        parameters.insert(by_position, Parameter("rest", Parameter.VAR_POSITIONAL))
    if draw(st.booleans()):
        parameters.append(Parameter("others", Parameter.VAR_KEYWORD))
    return Shape(draw(st.sampled_from(["self", "me"])), tuple(parameters), draw(st.booleans()))


positional = st.lists(values, max_size=6)
named = st.dictionaries(
    st.sampled_from([*NAMES, "self", "me", "rest", "others", "unknown"]), values, max_size=4
)


@st.composite
def calls(draw: st.DrawFn, shape: Shape) -> tuple[list[int], dict[str, int]]:
    """Any call, or a right one with or without more arguments."""
    if draw(st.booleans()):
        return draw(positional), draw(named)
    args: list[int] = []
    kwargs: dict[str, int] = {}
    for p in shape.parameters:
        if p.kind in {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}:
            continue
        if p.default is not Parameter.empty and draw(st.booleans()):
            continue
        if p.kind is Parameter.POSITIONAL_ONLY or (p.kind is Parameter.POSITIONAL_OR_KEYWORD and not kwargs):
            args.append(draw(values))
        else:
            kwargs[p.name] = draw(values)
    if draw(st.booleans()):
        kwargs.update(draw(named))
    return args, kwargs


def outcome_of(call: Callable[..., Any], args: list[int], kwargs: dict[str, int]) -> Any:
    """Return the result of a call, or the text of its TypeError."""
    try:
        return call(*args, **kwargs)
    except TypeError as error:
        return str(error)


def call(handle: Any, /, *args: int, **kwargs: int) -> Any:
    return handle.call(*args, **kwargs)


def put(handle: Any, /, *args: int, **kwargs: int) -> Any:
    return handle.put(*args, **kwargs)


WAYS: dict[str, Callable[[Any], Callable[..., Any]]] = {
    "call": lambda handle: partial(call, handle),
    "face": lambda handle: handle.call,
    "within": lambda handle: handle.call.within(7),
    "tell": lambda handle: partial(put, handle),
    "tell's face": lambda handle: handle.put,
    "try_send": lambda handle: handle.put.try_send,
    "when_room": lambda handle: handle.put.when_room,
}


@pytest.mark.slow
@pytest.mark.guarantee("G58")
@given(st.data())
def test_a_handle_binds_as_the_method_itself_would(drawn: st.DataObject) -> None:
    shape = drawn.draw(shapes())
    seen: list[dict[str, Any]] = []
    answering = shape.method("return {}", seen)
    kind: Any = type(
        "Made", (Actor,), {"call": ask(answering), "put": tell(shape.method("seen.append({})", seen))}
    )
    oracle: Any = type("Plain", (), {"call": answering})()
    with ActorSystem(LoopConfig(), clock=VirtualClock()) as loop:
        handle = loop.spawn(kind)
        for _ in range(4):
            args, kwargs = drawn.draw(calls(shape))
            way = drawn.draw(st.sampled_from(sorted(WAYS)))
            expected = outcome_of(oracle.call, args, kwargs)
            sent = loop.statistics().sent
            reply = outcome_of(WAYS[way](handle), args, kwargs)
            settle(loop)
            if isinstance(expected, str):
                event("a mistake")
                assert isinstance(reply, str), f"the method refuses this, the handle does not: {expected}"
                assert loop.statistics().sent == sent
                # The words are Python's own, and the name in front is the method's.
                name, _, words = reply.partition("(")
                assert words == expected.partition("(")[2]
                assert name.rpartition(".")[2] == ("call" if way in {"call", "face", "within"} else "put")
                continue
            event("a right call")
            assert not isinstance(reply, str), f"the method takes this, the handle does not: {reply}"
            got = outcome(reply) if way in {"call", "face", "within"} else seen.pop()
            assert got == expected
            # In their order, too: that is what a handler iterates over.
            assert list(got.get("others", ())) == list(expected.get("others", ()))
        assert is_alive(handle)
        assert seen == []
        check_statistics(loop)
