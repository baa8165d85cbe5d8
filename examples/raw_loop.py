"""The raw loop: a band of actors plays for two seconds, one of them fails, and the counters balance.

    python examples/raw_loop.py

Everything here is in `bandstand.core`, on which the rest is built. An actor is a function `behavior(ctx, data)`, a
state and a bounded mailbox. A loop runs its actors, one message at a time.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from time import perf_counter

from bandstand.core import (
    OK,
    STOP,
    ActorId,
    ChildExit,
    Context,
    Down,
    ExitReason,
    Lane,
    Loop,
    Observer,
    Verdict,
)
from bandstand.errors import MailboxFullError

BEATS = 8
BEAT_MS = 250
MESSAGES = 200_000

# Tags distinguish kinds of messages. Those of programs are 0 and up, those of the system below 0.
PLAY, PLAYED = 1, 2

START = perf_counter()


def say(who: str, words: str) -> None:
    print(f"{perf_counter() - START:5.2f} s  {who:<10} {words}", flush=True)


# --- a band: timers, answers, and exits ------------------------------------------------------------------------------


@dataclass
class Score:
    """The state of the conductor: its `ctx.state`."""

    beat: int = 0
    players: dict[ActorId, str] = field(default_factory=dict[ActorId, str])
    heard: list[str] = field(default_factory=list[str])


def conductor(ctx: Context[Score], data: object) -> Verdict:
    """Sends a beat to every player by timer, and notes who has played."""
    score = ctx.state
    if isinstance(data, ChildExit):
        # The conductor is the supervisor of its players, so it gets their exits on the SYSTEM lane.
        name = score.players.pop(data.child)
        say("conductor", f"the {name} has ended ({data.reason.name}: {data.cause}); I call in another")
        engage(ctx.loop, ctx.self_id, score, name)
    elif ctx.tag == PLAYED:
        score.heard.append(str(data))
    else:
        if score.heard:
            say("conductor", f"beat {score.beat}: {', '.join(score.heard)}")
        score.beat += 1
        score.heard.clear()
        if score.beat > BEATS:
            return STOP
        for member in score.players:
            ctx.loop.send(member, score.beat, tag=PLAY, sender=ctx.self_id)
        # A timer is a message that comes later. It belongs to its target and ends with it.
        ctx.loop.send_after(ctx.self_id, BEAT_MS / 1000, None)
    return OK


def player(ctx: Context[str], beat: int) -> None:
    """Plays on each beat, and answers the sender. The first horn fails on beat 4."""
    if ctx.state == "horn" and beat == 4:
        raise RuntimeError("a valve is stuck")
    ctx.loop.send(ctx.sender, ctx.state, tag=PLAYED)


def engage(loop: Loop, leader: ActorId, score: Score, name: str) -> ActorId:
    actor = loop.spawn(player, name, name=name, supervisor=leader)
    score.players[actor] = name
    return actor


def critic(_ctx: Context[None], data: Down) -> None:
    """Monitors the horn."""
    say("critic", f"I heard it too: {data.actor} went down, {data.reason.name}")


class Usher(Observer):
    """Prints all exits and all full mailboxes. Hooks that are not overridden cost nothing."""

    def on_actor_stop(self, id: ActorId, reason: ExitReason) -> None:  # noqa: A002  # the hook's own name
        say("observer", f"on_actor_stop({id}, {reason.name})")

    def on_mailbox_full(self, target: ActorId) -> None:
        say("observer", f"on_mailbox_full({target})")


def play(loop: Loop) -> None:
    score = Score()
    leader = loop.spawn(conductor, score, name="conductor")
    engage(loop, leader, score, "violin")
    engage(loop, leader, score, "drum")
    horn = engage(loop, leader, score, "horn")
    loop.monitor(loop.spawn(critic, name="critic"), horn)
    loop.send(leader, None)
    # Returns when nothing is ready and no timer is pending. The actors stay alive.
    loop.run(until_idle=True)


# --- lanes: urgent messages overtake ----------------------------------------------------------------------------------


def overtake(loop: Loop) -> None:
    order: list[str] = []

    def reader(ctx: Context[None], data: str) -> None:
        order.append(f"{data} ({ctx.lane.name})")

    actor = loop.spawn(reader, name="reader")
    loop.send(actor, "one")
    loop.send(actor, "two")
    loop.send(actor, "three", lane=Lane.MANAGEMENT)
    loop.send(actor, "four", lane=Lane.CONTROL)
    loop.run(until_idle=True)
    say("lanes", "sent one, two, three, four; handled " + ", ".join(order))


# --- a full mailbox is an error in the sender --------------------------------------------------------------------------


def ignore(_ctx: Context[None], _data: object) -> None:
    """Handles messages without doing anything."""


def overfill(loop: Loop) -> None:
    slow = loop.spawn(ignore, name="slow", mailbox_cap=8)
    accepted = 0
    try:
        while True:
            loop.send(slow, accepted)
            accepted += 1
    except MailboxFullError as error:
        say("sender", f"{accepted} accepted, then {type(error).__name__}:")
        print(textwrap.indent(textwrap.fill(str(error), 96), " " * 20))
    urgent = loop.try_send(slow, "now", lane=Lane.CONTROL)
    say("sender", f"the CONTROL lane has room of its own: try_send says {urgent}")
    loop.run(until_idle=True)


# --- speed, and the counters -------------------------------------------------------------------------------------------


def race(loop: Loop) -> None:
    send = loop.send

    def ping(_ctx: Context[None], left: int) -> None:
        if left:
            send(second, left - 1)

    def pong(_ctx: Context[None], left: int) -> None:
        if left:
            send(first, left - 1)

    first, second = loop.spawn(ping, name="ping"), loop.spawn(pong, name="pong")
    handled = loop.statistics().handled
    send(first, MESSAGES - 1)
    begin = perf_counter()
    loop.run(until_idle=True)
    seconds = perf_counter() - begin
    assert loop.statistics().handled - handled == MESSAGES
    print(
        f"speed     {MESSAGES:,} ping-pong messages in {seconds:.3f} s: {MESSAGES / seconds / 1e6:.1f} million a second"
    )


def account(loop: Loop) -> None:
    s = loop.statistics()
    print(
        f"\nmessages  sent {s.sent} = handled {s.handled} + refused {s.refused} + dead {s.dead} + dropped {s.dropped}"
        f" + waiting {s.waiting}"
    )
    print(f"timers    set {s.timers_set} = fired {s.timers_fired} + cancelled {s.timers_cancelled}", end="")
    print(f" + released {s.timers_released} + pending {s.timers_pending}")
    print(
        f"actors    spawned {s.spawned}, alive {s.alive}; ended: {s.ended_normal} normal, {s.ended_panic} by panic"
    )
    print(f"loop      {s.ticks} ticks for {s.wakeups} wake-ups of the event loop below")


def main() -> None:
    loop = Loop()
    loop.set_observer(Usher())
    play(loop)
    overtake(loop)
    overfill(loop)
    account(loop)
    race(loop)
    loop.set_observer(None)
    loop.destroy()


if __name__ == "__main__":
    main()
