"""Ring, wheel, table and ids: the same operations on both builds give the same transcript."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parity.builds import MODULES, Build, both_builds


def same(play: Callable[[Build], Any]) -> Any:
    """Play on both builds and compare; the transcript."""
    interpreted, compiled = both_builds()
    with interpreted.entered():
        expected = play(interpreted)
    with compiled.entered():
        actual = play(compiled)
    assert actual == expected
    return expected


def outcome(call: Callable[..., Any], *arguments: Any) -> str:
    """What a call gives, or how it fails, in words that can be compared."""
    try:
        return repr(call(*arguments))
    except Exception as error:  # noqa: BLE001 -- the kind of the failure is what is compared
        return type(error).__name__


@given(
    st.lists(
        st.sampled_from(
            ["push"] * 3
            + ["plain"] * 2
            + ["pop", "shift", "pop_newest", "push_front", "pull", "has", "peek", "alike"]
        ),
        max_size=200,
    )
)
def test_ring(steps: list[str]) -> None:  # a step a branch
    def play(build: Build) -> list[Any]:
        ring, turn = ring_and_turn(build)
        log: list[Any] = []
        # Told by what they are: large numbers are no singletons.
        senders = [str(-number) for number in range(len(steps))]
        for number, step in enumerate(steps):
            data = str(number) if number % 7 == 0 else number
            if step == "push":
                log.append(ring.push(data, number % 5, senders[number]))
            elif step == "plain":
                log.append(ring.push(data, 1, 0))
            elif step == "push_front":
                ring.push_front(data, number % 5, senders[number])
            elif step in {"pull", "has"}:
                log.append(getattr(ring, step)(senders[number // 2]))
            elif step == "alike":
                items: list[object] = ["first"]
                log.append((ring.take_alike(items, 6, 1, str), items))
            elif ring.count == 0:
                continue
            elif step == "pop":
                log.append((ring.pop(turn), turn.tag, turn.sender))
                if number % 2 == 0:
                    # As the kernel does when a message is handled: its sender is forgotten.
                    turn = new_turn(build)
            else:
                log.append(getattr(ring, step)())
            log.append((ring.count, [ring.next_is(tag) for tag in range(5)]))
        return log

    same(play)


def ring_and_turn(build: Build) -> tuple[Any, Any]:
    return build["bandstand.core.mailbox.Ring"](), new_turn(build)


def new_turn(build: Build) -> Any:
    return build["bandstand.core.context.ActorContext"](None, None, None)


class Thing:
    """Something that can be seen to be gone."""


@pytest.mark.parametrize("together", [1, 3, 900])
def test_a_ring_keeps_nothing_of_what_was_taken_but_a_tag(together: int) -> None:
    def play(build: Build) -> list[Any]:
        ring, turn = ring_and_turn(build)
        alive: list[Any] = []

        def push(data: Thing, tag: Thing, sender: Thing | None) -> None:
            things = [data, tag] if sender is None else [data, tag, sender]
            alive.extend(map(weakref.ref, things))
            ring.push(data, tag, 0 if sender is None else sender)

        for _ in range(together):
            push(Thing(), Thing(), None)
            push(Thing(), Thing(), Thing())
        before = sum(each() is not None for each in alive)
        while ring.count > 0:
            ring.pop(turn)
        turn = None
        kept = [each() for each in alive if each() is not None]
        return [before, all(type(each) is Thing for each in kept), len(kept) <= 2 * together]

    before, _, is_little = same(play)
    assert before == 5 * together
    assert is_little


def test_who_is_overwritten_in_a_ring_may_push_to_it() -> None:
    def play(build: Build) -> list[Any]:
        ring, turn = ring_and_turn(build)

        class Tag:
            def __del__(self) -> None:
                ring.push("last words", 7, 0)

        for number in range(3):
            ring.push(number, Tag(), 0)
        log: list[Any] = [ring.pop(turn) for _ in range(3)]
        turn = new_turn(build)
        # These overwrite the tags that were left in their slots.
        for number in range(3, 9):
            ring.push(number, 1, 0)
        while ring.count > 0:
            log.append((ring.pop(turn), turn.tag))
        return log

    log = same(play)
    assert [each for each in log if each == ("last words", 7)] == [("last words", 7)] * 3


@pytest.mark.parametrize("waiting", [1, 4, 8, 16])
def test_a_finalizer_that_runs_while_a_ring_grows_may_push_to_it(waiting: int) -> None:
    """Before Python 3.12 whatever makes a list may run the collector."""

    def play(build: Build) -> bool:
        ring, turn = ring_and_turn(build)
        sent: list[object] = []

        def push(what: object) -> None:
            sent.append(what)
            ring.push(what, 0, 0)

        class Late:
            def __init__(self) -> None:
                self.me = self

            def __del__(self) -> None:
                push("late")

        for number in range(waiting):
            push(number)
        if waiting > 1:
            # So that it does not begin where its list does.
            assert ring.pop(turn) == sent.pop(0)
            push("round the corner")
        Late()
        was = gc.get_threshold()
        # No list is left that was kept for the next: the one that is needed now is made.
        kept: list[list[object]] = [[] for _ in range(200)]
        gc.set_threshold(1)
        gc.enable()
        try:
            push("outer")
        finally:
            gc.disable()
            gc.set_threshold(*was)
        gc.collect()
        kept.clear()
        got = [ring.pop(turn) for _ in range(ring.count)]
        return sorted(map(str, got)) == sorted(map(str, sent)) and got[: waiting - 1] == sent[: waiting - 1]

    gc.collect()
    gc.disable()
    try:
        assert same(play)
    finally:
        gc.enable()


def test_who_is_overwritten_in_front_of_a_ring_may_push_to_it() -> None:
    def play(build: Build) -> list[Any]:
        ring, turn = ring_and_turn(build)

        class Tag:
            def __del__(self) -> None:
                ring.push("last words", 0, 0)

        for number in range(3):
            ring.push(number, 0, 0)
        # The last of four places keeps its tag when it is free again.
        ring.push(3, Tag(), 0)
        for _ in range(4):
            ring.pop(turn)
        ring.push("a", 0, 0)
        ring.pop(turn)
        ring.push_front("b", 0, 0)
        ring.push("c", 0, 0)
        ring.push("d", 0, 0)
        ring.push_front("front", 0, 0)
        return [ring.pop(turn) for _ in range(ring.count)]

    assert same(play) == ["front", "b", "c", "d", "last words"]


def test_what_is_pushed_while_a_list_is_taken_is_behind_it() -> None:
    """Interpreted, the handler of a signal may run whenever something is called."""
    build = both_builds()[0]
    with build.entered():
        ring, turn = ring_and_turn(build)

        class Items(list[object]):
            def append(self, item: object) -> None:
                super().append(item)
                ring.push(f"after {item}", 1, 0)

        for number in range(6):
            ring.push(number, 0, 0)
        items = Items()
        assert ring.take_alike(items, 5, 0, str) == 5
        assert items == [0, 1, 2, 3, 4]
        left = [ring.pop(turn) for _ in range(ring.count)]
        assert left == [5, "after 0", "after 1", "after 2", "after 3", "after 4"]


REFUSED: tuple[Callable[[Any], Any], ...] = (pickle.dumps, copy.copy, copy.deepcopy, weakref.ref)
OTHERS: tuple[Any, ...] = (0, 1, -1, 2.5, None, "x", True, 1 << 63, 1 << 64, 1 << 70, -(1 << 70), b"", object)


def test_ids_compare_hash_show_and_refuse_alike() -> None:
    def play(build: Build) -> list[str]:
        table = build["bandstand.core.ids.ActorTable"](0xFFFF, 1 << 20)
        ids: list[Any] = [table.admit(build["bandstand.core.mailbox.ActorCell"]()) for _ in range(3)]
        log: list[str] = []
        for actor in ids:
            log += [repr(actor), repr(int(actor)), repr(hash(actor) == hash(int(actor))), repr(bool(actor))]
            log += [repr([0, 1][:actor])]
            for other in (*ids, *map(int, ids), *(float(int(each)) for each in ids), *OTHERS):
                for sign in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
                    log.append(outcome(getattr(actor, sign), other))
            log += [outcome(refused, actor) for refused in REFUSED]
            log.append(outcome(setattr, actor, "anything", 1))
        log.append(repr(sorted(ids, reverse=True)))
        return log

    assert "TypeError" in same(play)


def test_timers_and_monitors_are_as_closed_in_both() -> None:
    def play(build: Build) -> list[str]:
        log: list[str] = []
        for made in (build["bandstand.core.timer_wheel.Timer"](), build.core.MonitorId()):
            log.append(outcome(setattr, made, "anything", 1))
            log.append(outcome(weakref.ref, made))
            log.append(repr(made == made))  # noqa: PLR0124 -- identity is their equality
            log.append(repr(hash(made) == hash(made)))
        return log

    same(play)


def public_methods(build: Build) -> dict[str, Any]:
    """Every public method of every class of the compiled modules, by its full name."""
    return {
        f"{module}.{owner}.{entry}": value
        for module in MODULES
        for owner, cls in sorted(vars(build.modules[module]).items())
        if isinstance(cls, type) and cls.__module__ == module and not getattr(cls, "_is_protocol", False)
        for entry, value in sorted(vars(cls).items())
        if not entry.startswith("_") and callable(value)
    }


@pytest.mark.guarantee("G276")
def test_every_public_method_has_the_signature_of_its_counterpart() -> None:
    import inspect

    # Some are functions of C alone, and no Python calls them.
    interpreted, compiled = (set(public_methods(build)) for build in both_builds())
    names = interpreted & compiled

    def play(build: Build) -> list[Any]:
        log: list[Any] = []
        for name, method in public_methods(build).items():
            if name in names:
                # The first is self, which C takes by position alone.
                parameters = list(inspect.signature(method).parameters.values())[1:]
                log.append((name, [(each.name, each.kind, repr(each.default)) for each in parameters]))
        return log

    assert len(same(play)) > 100


@pytest.mark.guarantee("G276")
@pytest.mark.parametrize("name", ["send", "try_send", "send_after", "send_async", "spawn", "stop_actor"])
def test_a_docstring_does_not_begin_with_a_signature(name: str) -> None:
    def play(build: Build) -> list[Any]:
        import inspect

        return [inspect.getdoc(getattr(build.core.Loop, name))]

    (text,) = same(play)
    assert not text.startswith((name, "("))
