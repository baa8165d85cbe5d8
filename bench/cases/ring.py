"""Thread ring (Savina 2): a token goes round a hundred actors. Measures switching from actor to actor.

Unlike ping-pong, a hundred mailboxes and handlers are touched in turn. An operation is one hop. Savina's hundred thousand
are over soon, so they are measured more often. The slowest systems make fewer.
"""

from __future__ import annotations

from bench import otp, stages, walk
from bench.case import Case, Outcome, Setting, Size
from bench.stage import Play, Stage
from bench.target import times_limit

ACTORS = 100
ROUND = range(ACTORS - 1, -1, -1)
"""Each to the one after it."""


def plain(setting: Setting) -> Outcome:
    return walk.plain(ROUND, setting)


def program(stage: Stage, setting: Setting) -> Play:
    return walk.program(ROUND, stage, setting)


def classes(setting: Setting) -> Outcome:
    return walk.classes(ROUND, setting)


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
