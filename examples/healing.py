"""A supervision tree that restarts its children: eight seconds, three failures, and a supervisor that gives up.

    python examples/healing.py            about eight seconds
    python examples/healing.py --fast     the same in about one

A small shop has a database, which connects in a coroutine and has a backoff, a cache, which is filled from the
database, and workers, which need both and have a supervisor of their own. So the strategy of the root is
rest_for_one: a child that fails is restarted together with all children after it. The children are functions, as on
the raw loop.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

from bandstand.core import ActorId, ActorStatus, Context, Loop, Observer, Tree
from bandstand.errors import RestartLimitError
from bandstand.supervision import (
    Backoff,
    ChildSpec,
    PartitionSpec,
    PartitionSupervisor,
    Strategy,
    SupervisorSpec,
    spawn_supervisor,
)

START = perf_counter()
MARGIN = 21


def say(who: str, words: str) -> None:
    lines = textwrap.wrap(words, 118 - MARGIN)
    print(f"{perf_counter() - START:5.2f} s  {who:<11} " + f"\n{'':{MARGIN}}".join(lines), flush=True)


# --- the shop ---------------------------------------------------------------------------------------------------------


@dataclass
class Outside:
    """The server that the database connects to. It refuses the next `refusals` attempts."""

    refusals: int = 0
    pace: float = 1.0


def the_shop(outside: Outside) -> SupervisorSpec:
    """Return the spec of the tree. A spec is data: it can be read, kept, and started more than once."""

    async def connect(_ctx: Context[str]) -> str:
        """The init of the database. The children after it wait until it returns."""
        await asyncio.sleep(0.4 * outside.pace)
        if outside.refusals:
            outside.refusals -= 1
            raise ConnectionRefusedError("no answer")
        say("database", "connected")
        return "connection"

    def database(_ctx: Context[str], request: str) -> None:
        if request == "pull the plug":
            raise ConnectionResetError("the plug was pulled")

    def fill(_ctx: Context[dict[str, str]]) -> dict[str, str]:
        say("cache", "filled from the database")
        return {}

    def cache(ctx: Context[dict[str, str]], entry: tuple[str, str]) -> None:
        ctx.state.update([entry])

    def take_place(_ctx: Context[Desk], place: int) -> Desk:
        """The init of a worker. Every incarnation gets a new desk."""
        return Desk(place)

    return SupervisorSpec(
        strategy=Strategy.REST_FOR_ONE,
        max_restarts=4,  # one more within a minute, and the root gives up
        period=60.0,
        children=[
            ChildSpec(
                "database",
                database,
                init=connect,
                backoff=Backoff(initial=0.5 * outside.pace, maximum=1.0 * outside.pace),
            ),
            ChildSpec("cache", cache, init=fill),
            ChildSpec(
                "workers",
                # Three workers of one kind. The orders of a customer always go to the same one.
                PartitionSpec(
                    child=ChildSpec("worker", work, init=take_place, keep_mailbox=True), partitions=3
                ),
            ),
        ],
    )


@dataclass
class Desk:
    """The state of a worker."""

    place: int
    packed: int = 0


def work(ctx: Context[Desk], order: str) -> None:
    if order == "an anvil":
        raise ValueError("an anvil does not fit into any box")
    ctx.state.packed += 1
    say(f"worker-{ctx.state.place}", f"packs {order}, number {ctx.state.packed} of this incarnation")


# --- the show ---------------------------------------------------------------------------------------------------------


class Log(logging.Handler):
    """Prints the log lines of the supervisors without their tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        say("log", record.getMessage())


class Show(Observer):
    """The steps of the example. Each is a message to the actor `stage`."""

    def __init__(self, loop: Loop, pace: float) -> None:
        self.loop = loop
        self.outside = Outside(pace=pace)
        self.stage = loop.spawn(stage, name="stage")
        self.root = spawn_supervisor(loop, the_shop(self.outside), name="shop")
        self.tree("the database connects, the others wait for their turn")
        self.later(700, self.everybody_is_up)

    def later(self, ms: float, scene: Callable[[], None]) -> None:
        self.loop.send_after(self.stage, ms * self.outside.pace / 1000, scene)

    def tree(self, title: str) -> None:
        say("tree", title)
        shop = self.loop.tree().find("shop")
        assert shop is not None
        print(textwrap.indent(str(Tree((shop,))), " " * MARGIN))

    def send(self, child: str, data: object) -> None:
        """Send to the current incarnation: an id is for one incarnation, the name of a child for all of them."""
        actor = self.root.child(child)
        assert actor is not None
        self.loop.send(actor, data)

    def everybody_is_up(self) -> None:
        if self.loop.status(self.root.actor) is ActorStatus.INIT:
            # On a slow machine: the status is INIT until the last child has started.
            self.later(100, self.everybody_is_up)
            return
        self.tree("all children run")
        self.later(500, self.a_worker_breaks)

    def a_worker_breaks(self) -> None:
        say("stage", "--- a worker fails: only this worker is restarted, and its unread messages are kept")
        workers = self.root.supervisor("workers", PartitionSupervisor[ActorId])
        assert workers is not None
        worker = workers.route("ada")
        assert worker is not None
        for order in ("a teapot", "an anvil", "six cups"):
            self.loop.send(worker, order)
        self.later(500, self.one_restart_later)

    def one_restart_later(self) -> None:
        self.tree("the worker was restarted")
        self.later(700, self.the_database_breaks)

    def the_database_breaks(self) -> None:
        say(
            "stage",
            "--- the database fails: it waits before it connects again, and the children after it wait, too",
        )
        self.outside.refusals = 1
        self.send("database", "pull the plug")
        self.later(250, self.while_it_waits)

    def while_it_waits(self) -> None:
        self.tree("no child works without the database")

    def on_actor_restart(self, supervisor: ActorId, child: ActorId, attempt: int) -> None:
        """The observer's hook. The workers are the last child of the root to start."""
        if supervisor == self.root.actor and child == self.root.child("workers"):
            say("observer", f"the workers were restarted (attempt {attempt}), after all children before them")
            self.later(0, self.healed)

    def healed(self) -> None:
        self.tree("healed")
        self.later(700, self.the_database_is_gone)

    def the_database_is_gone(self) -> None:
        say("stage", "--- the database does not come back: restarts do not help, and the root gives up")
        self.outside.refusals = 1000
        self.send("database", "pull the plug")


def stage(_ctx: Context[None], scene: Callable[[], None]) -> None:
    scene()


def tell(error: RestartLimitError) -> None:
    """Print the failures of a supervisor that gave up. Its message is in the log already."""
    say("run()", f"raised {type(error).__name__}; the last failures, the oldest first:")
    for number, cause in enumerate(error.failures, 1):
        print(f"{'':{MARGIN}}{number}. {type(cause).__name__}: {cause}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Watch a supervision tree that restarts its children.")
    parser.add_argument("--fast", action="store_true", help="run ten times as fast")
    options = parser.parse_args()
    logger = logging.getLogger("bandstand")
    logger.addHandler(Log())
    logger.propagate = False
    with Loop() as loop:
        loop.set_observer(Show(loop, pace=0.1 if options.fast else 1.0))
        try:
            loop.run()
        except RestartLimitError as error:
            tell(error)
    stats = loop.statistics()
    say("the end", f"{stats.alive} actors and {stats.timers_pending} timers are left")


if __name__ == "__main__":
    main()
