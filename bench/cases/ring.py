"""Thread ring (Savina 2): a token goes round a hundred actors. Measures switching from actor to actor.

Unlike ping-pong, a hundred mailboxes and handlers are touched in turn. An operation is one hop. Savina's hundred thousand
are over soon, so they are measured more often. The slowest systems make fewer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from bandstand.service import Actor, data
from bench import limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage, Who
from bench.target import times_limit

ACTORS = 100


def plain(setting: Setting) -> Outcome:
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

    members = [member() for _ in range(ACTORS)]
    for place, (_, link) in enumerate(members):
        link(members[(place + 1) % ACTORS][0])
    append((members[0][0], n - 1))
    elapsed = limit.drain(tasks)
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


def program(stage: Stage, setting: Setting) -> Play:
    n, left = setting.size, -1
    send = stage.send

    def member() -> tuple[Who, Callable[[Who], None]]:
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

        return stage.spawn(hop), link

    members = [member() for _ in range(ACTORS)]
    for place, (_, link) in enumerate(members):
        link(members[(place + 1) % ACTORS][0])
    first = members[0][0]
    return Play(begin=lambda: send(first, n - 1), operations=n, sent=n, handled=lambda: n - left)


def classes(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    loop = typed.make()

    class Member(Actor):
        following: Member

        @data
        def link(self, other: Member) -> None:
            self.following = other

        @data
        def hop(self, k: int) -> None:
            nonlocal left
            if k:
                self.following.hop(k - 1)
            else:
                left = k

    members = [loop.spawn(Member) for _ in range(ACTORS)]
    for place, member in enumerate(members):
        member.link(members[(place + 1) % ACTORS])
    loop.run(until_idle=True)
    members[0].hop(n - 1)
    elapsed = raw.drain(loop)
    return Outcome(total=elapsed, operations=n, sent=n, handled=raw.settle(loop, n + ACTORS) - ACTORS - left)


CASE = Case(
    name="thread-ring",
    title="thread ring, 100 actors",
    what="one message round a ring of a hundred actors (Savina 2)",
    size=Size(full=100_000, slow=100_000, quick=2_000),
    savina=2,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("ring", setting.size, ACTORS),
    },
    target=times_limit(1.5),
    repeats=15,
)
