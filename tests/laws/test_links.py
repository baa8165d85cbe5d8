"""Links: which actors end together, compared with a small model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.core import ActorId, ActorStatus, ExitReason, Loop
from bandstand.testing import VirtualClock
from tests.core.child_groups import exit_messages
from tests.core.support import Boom, RecordingObserver, Seen, check_statistics, record, settle

Step = tuple[str, int, int]

ENDS = {
    "stop": ExitReason.NORMAL,
    "fail": ExitReason.FAIL,
    "kill": ExitReason.FAIL,
    "panic": ExitReason.PANIC,
}


def actor_of_the_web(ctx: Any, data: object) -> None:
    if data == "panic":
        raise Boom
    record(ctx, data)


class Model:
    """Which actors are linked, trap exits and have ended, and the exit messages of each."""

    def __init__(self, size: int) -> None:
        self.links: set[frozenset[int]] = set()
        self.traps: set[int] = set()
        self.ended: dict[int, ExitReason] = {}
        self.told: dict[int, list[tuple[int, ExitReason]]] = {number: [] for number in range(size)}

    def end(self, who: int, reason: ExitReason) -> None:
        falling = [who]
        while falling:
            gone = falling.pop(0)
            if gone in self.ended:
                continue
            self.ended[gone] = reason
            for link in [link for link in self.links if gone in link]:
                self.links.remove(link)
                (peer,) = link - {gone}
                falling.extend(self.part(peer, gone, reason))

    def part(self, peer: int, gone: int, reason: ExitReason) -> list[int]:
        """Remove one end of a link; return the actors that end with it."""
        if peer in self.traps:
            self.told[peer].append((gone, reason))
            return []
        return [] if reason is ExitReason.NORMAL else [peer]

    def link(self, one: int, other: int) -> None:
        if other in self.ended:
            for falling in self.part(one, other, self.ended[other]):
                self.end(falling, self.ended[other])
        else:
            self.links.add(frozenset((one, other)))


steps = st.lists(
    st.tuples(
        st.sampled_from(
            ["link"] * 6 + ["unlink", "trap", "trap no more", "stop", "fail", "kill", "panic", "settle"]
        ),
        st.integers(0, 11),
        st.integers(0, 11),
    ),
    max_size=80,
)


class Web:
    """Actors and their model."""

    def __init__(self, loop: Loop, size: int) -> None:
        self.loop = loop
        self.inboxes: list[list[Seen]] = [[] for _ in range(size)]
        self.actors: list[ActorId] = [loop.spawn(actor_of_the_web, inbox) for inbox in self.inboxes]
        self.model = Model(size)

    def take(self, what: str, one: int, other: int) -> None:
        loop, model, actor, peer = self.loop, self.model, self.actors[one], self.actors[other]
        if what in ENDS:
            self.end(what, one)
        elif what == "link" and one != other:
            loop.link(actor, peer)
            model.link(one, other)
        elif what == "unlink":
            pair = frozenset((one, other))
            assert loop.unlink(actor, peer) is (pair in model.links)
            model.links.discard(pair)
        elif what == "trap":
            loop.trap_exits(actor)
            model.traps.add(one)
        elif what == "trap no more":
            loop.trap_exits(actor, is_on=False)
            model.traps.discard(one)
        elif what == "settle":
            settle(loop)

    def end(self, how: str, one: int) -> None:
        loop = self.loop
        if how == "panic":
            loop.send(self.actors[one], how)
            settle(loop)
        else:
            {"stop": loop.stop_actor, "fail": loop.fail_actor, "kill": loop.kill_actor}[how](self.actors[one])
        self.model.end(one, ENDS[how])

    def ended(self) -> set[int]:
        return {
            number
            for number, actor in enumerate(self.actors)
            if self.loop.status(actor) >= ActorStatus.STOPPED
        }

    def check_what_was_told(self) -> None:
        for number, inbox in enumerate(self.inboxes):
            told = [(self.actors.index(note.actor), note.reason) for note in exit_messages(inbox)]
            expected = self.model.told[number]
            if number in self.model.ended:
                assert set(told) <= set(expected), "what it had not read is a dead letter"
            else:
                assert sorted(told) == sorted(expected)


@pytest.mark.guarantee("G43", "G21", "G10")
@given(steps=steps, size=st.integers(2, 12))
def test_links_do_what_the_model_does(steps: list[Step], size: int) -> None:
    with Loop(clock=VirtualClock()) as loop:
        web = Web(loop, size)
        diary = RecordingObserver()
        loop.set_observer(diary)
        for what, one, other in steps:
            if one % size not in web.model.ended:
                web.take(what, one % size, other % size)
                assert web.ended() == set(web.model.ended)
        assert dict(diary.stopped) == {
            web.actors[number]: reason for number, reason in web.model.ended.items()
        }
        assert len(diary.stopped) == len(web.model.ended), "each of them once"
        settle(loop)
        web.check_what_was_told()
        check_statistics(loop)
