"""The deeds: what may be done to a world at any moment, each with the check that it went as promised."""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from bandstand.core import ActorStatus, Lane, Overflow, SystemTag
from bandstand.errors import (
    ActorNotLocalError,
    BandstandError,
    InvalidArgumentError,
    LoopBusyError,
    LoopClosedError,
    MailboxFullError,
    MaxActorsError,
    NoSuchActorError,
)
from tests.soak.actors import Kind, Player
from tests.soak.flood import USER_LANES
from tests.soak.inner import Inner, perform
from tests.soak.timers import DELAYS

if TYPE_CHECKING:
    from tests.soak.world import World

KINDS: tuple[Kind, ...] = ("plain", "plain", "coroutine", "both")
CAPS = (None, 5, 6, 9, 40, 5000)


def spawn(world: World) -> None:
    """Spawn a player, often under a supervisor."""
    if len(world.stage) >= world.plan.population:
        return
    random = world.random
    boss = world.pick() if world.stage and random.random() < 0.5 else None
    player = Player(world.next_serial(), random.choice(KINDS), random.choice(tuple(Overflow)), boss)
    try:
        world.spawn(player, mailbox_cap=random.choice(CAPS))
    except (NoSuchActorError, LoopClosedError):
        world.check_refusal(boss)
    except MaxActorsError:
        if (alive := world.loop.statistics().alive) != world.plan.config.max_actors:
            world.fail(f"MaxActorsError at {alive} of {world.plan.config.max_actors} actors")
    else:
        world.stage.append(player)


def send(world: World) -> None:
    """Send one message by one of the two ways, to an id or to its number."""
    post(world, world.pick(), world.random.choice(USER_LANES))


def burst(world: World) -> None:
    """Send many messages to one player, so that its lane fills."""
    player, lane = world.pick(), world.random.choice(USER_LANES)
    for _ in range(world.random.choice((10, 60, 400))):
        post(world, player, lane)


def post(world: World, player: Player, lane: Lane) -> None:
    books, loop = world.books, world.loop
    note = books.begin(books.own, player, lane)
    is_number, is_try = world.random.random() < 0.2, world.random.random() < 0.3
    target = int(player.actor) if is_number else player.actor
    try:
        if not is_try:
            loop.send(target, note, lane=lane, tag=note.tag)
        elif not loop.try_send(target, note, lane=lane, tag=note.tag):
            books.refuse(books.own, note)
    except MailboxFullError:
        books.refuse(books.own, note)
        if player.overflow is not Overflow.REJECT:
            world.fail(f"{player} gives up messages, and yet it refused {note}")
    except (NoSuchActorError, LoopClosedError):
        books.refuse(books.own, note)
        world.check_refusal(player)


def set_timer(world: World) -> None:
    """Set a timer."""
    player = world.pick()
    if not world.timers.start(player, world.random.randrange(len(DELAYS)), world.random.choice(USER_LANES)):
        world.check_refusal(player)


def timer_storm(world: World) -> None:
    """Have many timers come due at one time, for one lane of one mailbox."""
    player, lane = world.pick(), world.random.choice(USER_LANES)
    delay = world.random.randrange(8)
    for _ in range(world.random.choice((5, 50, 300))):
        world.timers.start(player, delay, lane)


def cancel_timer(world: World) -> None:
    """Cancel one of the timers, pending, due or on its way."""
    pending = world.timers.pending
    if pending:
        # The newest and the oldest are at hand without walking through all of them.
        number = next(reversed(pending)) if world.random.random() < 0.7 else next(iter(pending))
        if pending[number][1].player is not world.conductor:
            world.timers.cancel(number)


def stop(world: World) -> None:
    """End a player from outside."""
    _end(world, world.loop.stop_actor)


def fail(world: World) -> None:
    """Fail a player from outside."""
    _end(world, world.loop.fail_actor)


def _end(world: World, end: Callable[[Any], None]) -> None:
    player = world.pick()
    if player.is_staff:
        return
    try:
        end(player.actor)
    except (NoSuchActorError, LoopClosedError):
        world.check_refusal(player)
        return
    if world.loop.status(player.actor) < ActorStatus.STOPPING:
        world.fail(f"{player} was ended and is {world.loop.status(player.actor)!r}")


def monitor(world: World) -> None:
    """Have one player monitor another, living or dead."""
    watcher, target = world.pick(), world.pick()
    number = int(target.actor)
    world.kin.expect_down(watcher, number)
    try:
        made = world.loop.monitor(watcher.actor, target.actor)
    except (NoSuchActorError, LoopClosedError):
        world.kin.forget(watcher, number)
        world.check_refusal(watcher)
        return
    monitors = world.kin.monitors
    monitors.append((made, watcher, target))
    if len(monitors) > 200:
        del monitors[:100]


def demonitor(world: World) -> None:
    """Take a monitor back."""
    monitors = world.kin.monitors
    if not monitors:
        return
    made, watcher, target = monitors.pop(world.random.randrange(len(monitors)))
    if world.loop.demonitor(made):
        world.kin.forget(watcher, int(target.actor))
        if world.loop.demonitor(made):
            world.fail("a monitor could be taken back twice")


def system(world: World) -> None:
    """Speak for the system, which takes any free slot; if there is none, the player fails."""
    player = world.pick()
    if player.is_staff:
        return
    try:
        has_room = world.loop.kernel.send_system(player.actor, None, SystemTag.SHUTDOWN)
    except (NoSuchActorError, LoopClosedError):
        # Refused, and counted as a send.
        world.books.system_refused += 1
        world.check_refusal(player)
        return
    if not has_room:
        world.books.system_refused += 1
        if world.loop.status(player.actor) < ActorStatus.STOPPING:
            world.fail(f"the mailbox of {player} was overrun, and it did not fail")


def open_pipe(world: World) -> None:
    """Open a pipe for a player."""
    world.pipes.open(world.pick())


def write_pipe(world: World) -> None:
    """Write into a pipe."""
    world.pipes.write()


def hang_up(world: World) -> None:
    """Close the writing end of a pipe."""
    world.pipes.hang_up()


def close_behind(world: World) -> None:
    """Close a watched descriptor without a word."""
    world.pipes.close_behind()


def unwatch(world: World) -> None:
    """Watch a descriptor no more."""
    world.pipes.unwatch()


def form_troupe(world: World) -> None:
    """Start a supervised tree, whose members are players like the others."""
    world.troupes.form()


def direct_troupe(world: World) -> None:
    """Have a supervisor start, stop or forget a member, or end it."""
    world.troupes.direct()


def wrong(world: World) -> None:
    """Do what can never work: it raises and counts as no send."""
    loop, actor = world.loop, world.pick().actor
    calls: list[tuple[Callable[[], object], type[BandstandError]]] = [
        (lambda: loop.send(actor, 1, tag=-1), InvalidArgumentError),
        (lambda: loop.send(actor, 1, lane=Lane.SYSTEM), InvalidArgumentError),
        (lambda: loop.send_after(actor, -0.001, 1), InvalidArgumentError),
        (lambda: loop.spawn(world.behaviors.plain, world.doorman, mailbox_cap=1), InvalidArgumentError),
        (loop.destroy, LoopBusyError),
        (loop.run, LoopBusyError),
        (loop.poll_once, LoopBusyError),
        (lambda: loop.stop_actor(world.stranger), ActorNotLocalError),
    ]
    call, error = world.random.choice(calls)
    try:
        call()
    except (error, LoopClosedError):
        return
    except BandstandError as other:
        world.fail(f"{other!r} was raised instead of {error.__name__}")
    else:
        world.fail(f"what should have raised {error.__name__} was done")


def inner_loop(world: World) -> None:
    """Make, drive and destroy a whole loop inside a behavior, or run one in a thread of its own."""
    seed = f"{world.name}/inner/{world.next_serial()}"
    if world.random.random() < 0.5 or len(world.inners) >= 3:
        perform(seed, world.fail)
        world.inner_loops += 1
    else:
        inner = Inner(seed, world.plan.loop_factory, world.fail)
        inner.start()
        world.inners.append(inner)


def stop_inner(world: World) -> None:
    """Stop a loop that runs in another thread."""
    if world.inners:
        world.inners.pop(0).finish()
        world.inner_loops += 1


DEEDS: tuple[tuple[int, Callable[[World], None]], ...] = (
    (150, spawn),
    (400, send),
    (25, burst),
    (120, set_timer),
    (10, timer_storm),
    (60, cancel_timer),
    (20, stop),
    (10, fail),
    (30, monitor),
    (20, demonitor),
    (12, system),
    (20, open_pipe),
    (60, write_pipe),
    (6, hang_up),
    (6, close_behind),
    (10, unwatch),
    (12, form_troupe),
    (30, direct_troupe),
    (10, wrong),
    (1, inner_loop),
    (1, stop_inner),
)
CHOICES = [deed for _, deed in DEEDS]
WEIGHTS = list(accumulate(weight for weight, _ in DEEDS))
