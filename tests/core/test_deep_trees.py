"""Supervision trees and chains of links that are thousands deep end without recursion."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bandstand.core import ActorId, ExitReason, Loop
from tests.core.child_groups import RecordingChildGroup, add_child
from tests.core.support import RecordingObserver, idle

pytestmark = pytest.mark.guarantee("G277")

DEPTH = 5_000


def found_chain(loop: Loop, depth: int = DEPTH) -> list[ActorId]:
    """A chain of actors, each with the next one as its only child."""
    actors: list[ActorId] = []
    above: RecordingChildGroup | None = None
    for _ in range(depth):
        actor = add_child(loop, idle, supervisor=actors[-1] if actors else None)
        if above is not None:
            above.children.append(actor)
        above = RecordingChildGroup(loop)
        loop.kernel.actors.set_child_group(actor, above)
        actors.append(actor)
    return actors


def test_an_exit_hook_that_ends_the_parent(loop: Loop, diary: RecordingObserver) -> None:
    actors = found_chain(loop, 4)
    loop.link(actors[0], actors[1])

    def epilogue(_reason: ExitReason, _cause: BaseException | None) -> None:
        loop.fail_actor(actors[1], "from below")

    loop.kernel.actors.set_exit_hook(actors[3], epilogue)
    loop.stop_actor(actors[3])
    assert len(diary.stopped) == len(actors)
    assert {actor for actor, _ in diary.stopped} == set(actors)
    assert loop.statistics().alive == 0


@pytest.mark.slow
def test_a_failure_runs_along_a_chain_of_links(loop: Loop, diary: RecordingObserver) -> None:
    actors = [loop.spawn(idle) for _ in range(2 * DEPTH)]
    for left, right in pairwise(actors):
        loop.link(left, right)
    loop.fail_actor(actors[0], "the first one fails")
    assert loop.statistics().alive == 0
    assert [actor for actor, _ in diary.stopped] == actors
