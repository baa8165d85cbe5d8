"""A token that walks from actor to actor, each of which knows the next: what `ring` and the cases of growth have in common.

The order of the walk is a list of places, in which each actor's next is the one before it in the list; the walk begins at place 0.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from bandstand.actor import Actor, tell
from bandstand.core import LoopConfig
from bench import limit, raw, typed
from bench.case import Outcome, Setting
from bench.stage import Handler, Play, Stage, Who


def plain(order: Sequence[int], setting: Setting) -> Outcome:
    """Walk by a plain Python loop over a deque."""
    n, left = setting.size, -1
    tasks: limit.Tasks = deque()
    append = tasks.append

    def member() -> tuple[limit.Handler, Callable[[limit.Handler], None]]:
        following: limit.Handler

        def hop(_ctx: None, k: int) -> None:
            nonlocal left
            if k:
                append((following, k - 1))
            else:
                left = k

        def link(other: limit.Handler) -> None:
            nonlocal following
            following = other

        return hop, link

    members = [member() for _ in order]
    for place, number in enumerate(order):
        members[number][1](members[order[place - 1]][0])
    append((members[0][0], n - 1))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def program(order: Sequence[int], stage: Stage, setting: Setting) -> Play:
    """Walk on any stage."""
    n, left = setting.size, -1
    send = stage.send

    def member() -> tuple[Handler, Callable[[Who], None]]:
        following: Who = None

        def hop(_me: object, k: int) -> None:
            nonlocal left
            if k:
                send(following, k - 1)
            else:
                left = k
                stage.finish()

        def link(other: Who) -> None:
            nonlocal following
            following = other

        return hop, link

    parts = [member() for _ in order]
    members = [stage.spawn(hop) for hop, _ in parts]
    for place, number in enumerate(order):
        parts[number][1](members[order[place - 1]])
    return Play(begin=lambda: send(members[0], n - 1), operations=n, sent=n, handled=lambda: n - left)


def classes(order: Sequence[int], setting: Setting) -> Outcome:
    """Walk through typed actors."""
    n, left = setting.size, -1
    usual = LoopConfig()
    loop = typed.make(LoopConfig(max_actors=max(len(order), usual.max_actors)))

    class Member(Actor):
        @tell
        def link(self, following: Member) -> None:
            self.following = following

        @tell
        def hop(self, k: int) -> None:
            nonlocal left
            if k:
                self.following.hop(k - 1)
            else:
                left = k

    members = [loop.spawn(Member) for _ in order]
    for place, number in enumerate(order):
        members[number].link(members[order[place - 1]])
    loop.run(until_idle=True)
    elapsed = raw.drain(loop, lambda: members[0].hop(n - 1))
    raw.settle(loop, n + len(order))
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)
