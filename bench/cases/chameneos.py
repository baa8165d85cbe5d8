"""Chameneos (Savina 7): a hundred creatures meet two by two, through one mall. Measures many senders to one mailbox.

Who comes to the mall says its colour. The mall keeps the first and sends it the second; the first takes the colour that both together
make, tells the second, and both come again. When there have been as many meetings as were to be, whoever comes is sent away, fades,
and says how often it met somebody; its actor ends. An operation is one message, and a meeting is four: two who come, one who is told
of the other, and one who is told its colour.

Who meets whom is left to each system's scheduler; how many messages that takes is not. What must come out: twice as many
meetings as there were, summed over all creatures. `limit` is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from bandstand.actor import Actor, tell
from bench import otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who

CHAMENEOS = 100
COLOURS = 3
FADED = -1

Close: TypeAlias = Callable[[int, int, int], None]
"""Takes what the mall has handled, how often creatures say they met somebody, and how many have faded, when all have."""


def complement(mine: int, other: int) -> int:
    """The colour that two make: their own if it is the same, else the third."""
    return mine if mine == other else COLOURS - mine - other


def messages(meetings: int) -> int:
    """Four for each meeting; and each comes once more, is sent away, and says how often it met somebody."""
    return 4 * meetings + 3 * CHAMENEOS


def handled(meetings: int, at_mall: int, met: int, faded: int) -> int:
    """How many messages were handled: by the mall, and by creatures, one for each time that one met another or was sent away.

    Raises:
        WrongResultError: there were other meetings, by what the creatures say, than were to be.
    """
    if met != 2 * meetings:
        raise WrongResultError(f"two each met {meetings} times; the creatures say that they met {met} times")
    return at_mall + met + faded


def program(stage: Stage, setting: Setting) -> Play:
    books = 0, 0, 0

    def close(at_mall: int, met: int, faded: int) -> None:
        nonlocal books
        books = at_mall, met, faded
        stage.finish()

    mall = stage.spawn(meetings(stage, setting.size, close))
    creatures = [creature(stage, mall, number % COLOURS) for number in range(CHAMENEOS)]

    def begin() -> None:
        for number, each in enumerate(creatures):
            stage.send(mall, (number % COLOURS, each))

    sent = messages(setting.size)
    return Play(begin=begin, operations=sent, sent=sent, handled=lambda: handled(setting.size, *books))


def meetings(stage: Stage, left: int, close: Close) -> Handler:
    """The mall. Who comes says its colour and its address; who goes says how often it met somebody, and None."""
    send = stage.send
    at_mall = met = faded = 0
    waiting: Who = None

    def meet(_me: object, data: tuple[int, Who]) -> None:
        nonlocal left, at_mall, waiting, met, faded
        at_mall += 1
        number, who = data
        if who is None:
            met += number
            faded += 1
            if faded == CHAMENEOS:
                close(at_mall, met, faded)
        elif not left:
            send(who, (FADED, None))
        elif waiting is None:
            waiting = who
        else:
            send(waiting, data)
            waiting = None
            left -= 1

    return meet


def creature(stage: Stage, mall: Who, mine: int) -> Who:
    """Make a creature. It is sent the colour and the address of another, or its own new colour and None."""
    send, end = stage.send, stage.end
    meetings = 0

    def meet(_me: object, data: tuple[int, Who]) -> object:
        nonlocal mine, meetings
        colour, other = data
        if other is not None:
            mine = complement(mine, colour)
            send(other, (mine, None))
        elif colour == FADED:
            send(mall, (meetings, None))
            return end
        else:
            mine = colour
        meetings += 1
        send(mall, (mine, me))
        return None

    me = stage.spawn(meet)
    return me


class Mall(Actor):
    """Where they meet."""

    def __init__(self, meetings: int, close: Close) -> None:
        self.left = meetings
        self.close = close
        self.waiting: Creature | None = None
        self.at_mall = self.met = self.faded = 0

    @tell
    def come(self, colour: int, who: Creature) -> None:
        self.at_mall += 1
        if not self.left:
            who.fade()
        elif self.waiting is None:
            self.waiting = who
        else:
            self.waiting.meet(colour, who)
            self.waiting = None
            self.left -= 1

    @tell
    def go(self, meetings: int) -> None:
        self.at_mall += 1
        self.met += meetings
        self.faded += 1
        if self.faded == CHAMENEOS:
            self.close(self.at_mall, self.met, self.faded)


class Creature(Actor):
    """Who meets others."""

    def __init__(self, mall: Mall, colour: int) -> None:
        self.mall = mall
        self.colour = colour
        self.meetings = 0

    @tell
    def meet(self, colour: int, other: Creature) -> None:
        self.colour = complement(self.colour, colour)
        other.change(self.colour)
        self.come_again()

    @tell
    def change(self, colour: int) -> None:
        self.colour = colour
        self.come_again()

    @tell
    def fade(self) -> None:
        self.mall.go(self.meetings)
        self.stop()

    def come_again(self) -> None:
        self.meetings += 1
        self.mall.come(self.colour, self.me)


def classes(setting: Setting) -> Outcome:
    books = 0, 0, 0

    def close(at_mall: int, met: int, faded: int) -> None:
        nonlocal books
        books = at_mall, met, faded

    loop = typed.make()
    mall = loop.spawn(Mall, setting.size, close)
    creatures = [loop.spawn(Creature, mall, number % COLOURS) for number in range(CHAMENEOS)]

    def begin() -> None:
        for number, creature in enumerate(creatures):
            mall.come(number % COLOURS, creature)

    elapsed = raw.drain(loop, begin)
    sent = messages(setting.size)
    raw.settle(loop, sent)
    return Outcome(total=elapsed, operations=sent, sent=sent, handled=handled(setting.size, *books))


CASE = Case(
    name="chameneos",
    title="chameneos, 100 at a mall",
    what="a hundred creatures meet two by two through one mall, 200,000 times (Savina 7)",
    size=Size(full=200_000, slow=50_000, quick=500),
    measures={
        "typed": classes,
        **stages.measures(program),
        "erlang": lambda setting: otp.run("chameneos", setting.size, CHAMENEOS, sent=messages(setting.size)),
    },
    savina=7,
)
