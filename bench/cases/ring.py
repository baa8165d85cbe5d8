"""Thread ring (Savina 2): a token goes round a hundred actors. Measures switching from actor to actor.

Unlike ping-pong, a hundred mailboxes and handlers are touched in turn. An operation is one hop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from bandstand.core import ActorId, Context
from bench import limit, queues, raw
from bench.case import Case, Outcome, Setting, Size
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


def bandstand(setting: Setting) -> Outcome:
    n, left = setting.size, -1
    loop = raw.make()
    send = loop.send

    def member() -> tuple[ActorId, Callable[[ActorId], None]]:
        following: ActorId

        def hop(_ctx: Context[None], k: int) -> None:
            nonlocal left
            if k:
                send(following, k - 1)
            else:
                left = k

        def link(other: ActorId) -> None:
            nonlocal following
            following = other

        return loop.spawn(hop), link

    members = [member() for _ in range(ACTORS)]
    for place, (_, link) in enumerate(members):
        link(members[(place + 1) % ACTORS][0])
    send(members[0][0], n - 1)
    elapsed = raw.drain(loop)
    return Outcome(total=elapsed, operations=n, sent=n, handled=raw.settle(loop, n) - left)


async def tasks(n: int) -> Outcome:
    left = -1
    mailboxes = [asyncio.Queue[int]() for _ in range(ACTORS)]

    def member(place: int) -> queues.Handler:
        put_following = mailboxes[(place + 1) % ACTORS].put_nowait

        def hop(_ctx: None, k: int) -> None:
            nonlocal left
            if k:
                put_following(k - 1)
            else:
                left = k

        return hop

    rounds, rest = divmod(n, ACTORS)
    actors = [
        queues.serve(mailbox, member(place), rounds + (place < rest))
        for place, mailbox in enumerate(mailboxes)
    ]
    elapsed = await queues.drain(actors, lambda: mailboxes[0].put_nowait(n - 1))
    return Outcome(total=elapsed, operations=n, sent=n, handled=n - left)


CASE = Case(
    name="thread-ring",
    title="thread ring, 100 actors",
    what="one message round a ring of a hundred actors (Savina 2)",
    size=Size(full=1_000_000, slow=200_000, quick=2_000),
    savina=2,
    measures={
        "limit": plain,
        "raw": bandstand,
        "queues": lambda setting: queues.run(setting, tasks(setting.size)),
    },
    target=times_limit(1.5),
)
