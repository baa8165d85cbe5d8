"""What once went wrong with lives and ends: starts, ends, children, and who is told."""

from __future__ import annotations

import asyncio
from asyncio import Event
from typing import Any

import pytest

from bandstand.actor import Actor, Loop, ask, child, is_alive, supervised
from bandstand.errors import NoSuchActor, TargetEnded
from bandstand.supervision import SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.actor.abroad import looping, staged
from tests.actor.answers import answer
from tests.actor.asking import CAP, Oracle, Play, got, in_place, in_time, outcome, turns
from tests.core.stage import HostFactory, settle


@pytest.fixture
def play(clock: VirtualClock) -> Play:
    return in_time(clock)


# --- askers and ends ----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G60")
def test_who_waited_for_room_is_told_that_there_was_none_and_not_that_nobody_answered(
    loop_factory: HostFactory,
) -> None:
    async def story(loop: Loop) -> None:
        oracle = loop.options(mailbox_cap=CAP).spawn(Oracle)
        oracle.block(Event())
        await turns()
        while oracle.note.try_send("filler"):
            pass
        landing = oracle.note.when_room("late")
        await turns()
        oracle.kill()
        with pytest.raises(TargetEnded, match=r"before there was room for Oracle\.note\(\)") as caught:
            await landing
        assert "answered" not in str(caught.value)

    in_place(loop_factory)(story)


@pytest.mark.guarantee("G60")
def test_who_waited_for_room_on_another_thread_is_told_the_same(loop_factory: HostFactory) -> None:
    with staged(loop_factory) as stage:
        oracle = stage.do(lambda: stage.loop.options(mailbox_cap=CAP).spawn(Oracle))
        stage.do(lambda: oracle.block(Event()))
        stage.settle()

        def fill() -> None:
            while oracle.note.try_send("filler"):
                pass

        stage.do(fill)

        async def main() -> Any:
            waiting = asyncio.ensure_future(outcome(got(oracle.note.when_room("late"))))
            await turns()
            oracle.kill()
            return await waiting

        error = looping(main)
        assert isinstance(error, TargetEnded)
        assert "before there was room for Oracle.note()" in str(error)
        assert "answered" not in str(error)


# --- starts and ends ----------------------------------------------------------------------------------------------------


# --- supervised children ------------------------------------------------------------------------------------------------


class Cat(Actor):
    @ask
    def sound(self) -> str:
        return f"meow of a {type(self).__name__}"


class Kitten(Cat): ...


class Dog(Actor):
    @ask
    def sound(self) -> str:
        return "woof"


@pytest.mark.guarantee("G59", "G67")
def test_a_handle_does_not_reach_a_child_of_another_class_in_the_same_place(loop: Loop) -> None:
    root = spawn_supervisor(loop, SupervisorSpec(children=[child("pet").of(Cat)]))
    cat = supervised(root, Cat, "pet")

    def replace(kind: type[Actor]) -> None:
        root.stop_child("pet")
        root.delete_child("pet")
        root.start_child(child("pet").of(kind))
        settle(loop)

    assert answer(loop, cat.sound()) == "meow of a Cat"
    replace(Dog)
    assert not is_alive(cat)
    with pytest.raises(NoSuchActor):
        answer(loop, cat.sound())
    assert answer(loop, supervised(root, Dog, "pet").sound()) == "woof"
    # It means the place, and whoever is there that is of its class.
    replace(Kitten)
    assert answer(loop, cat.sound()) == "meow of a Kitten"
