"""Cigarette smokers (Savina 14): an arbiter chooses one of two hundred at random, and goes on when that one has begun to smoke.

Measures messages to actors that have been idle for long: never more than one is on its way, and each goes to somebody else.
Whom the arbiter chooses, and for how long each smokes, is drawn beforehand from a seeded generator, and so the same in every
system; to smoke is one to four steps of that generator. (Savina draws numbers that nobody can repeat, and far more
work.) After the last round all are sent home, and each says that he goes. An operation is one message: two a round, two for
each smoker in the end, and the one that starts it all. So that one message in six is of the end everywhere, no system plays fewer rounds. It is a matter of a millisecond: read the figure with care.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from bandstand.actor import Actor, tell
from bench import dice, limit, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who

SMOKERS = 200
SEED = 14
STEPS = 4
HOME = 0
"""The steps that say: no more, go home."""
BEGUN, GONE = "begun", "gone"
"""What a smoker tells the arbiter."""


def chosen(rounds: int) -> list[tuple[int, int]]:
    """Who smokes in each round, and for how many steps."""
    draws = dice.draws(SEED)
    return [(next(draws) % SMOKERS, 1 + next(draws) % STEPS) for _ in range(rounds)]


@dataclass
class Books:
    """What everybody has counted by himself."""

    rounds: int
    smoked: list[int] = field(default_factory=lambda: [0] * SMOKERS)
    sent_home: list[int] = field(default_factory=lambda: [0] * SMOKERS)
    begun: int = 0
    gone: int = 0

    @property
    def messages(self) -> int:
        return 1 + 2 * self.rounds + 2 * SMOKERS

    def handled(self) -> int:
        """How many messages there were. Each must have smoked as often as he was chosen.

        Raises:
            WrongResultError: it is not so.
        """
        wanted = Counter(who for who, _ in chosen(self.rounds))
        wrong = [who for who in range(SMOKERS) if self.smoked[who] != wanted[who]]
        if wrong:
            raise WrongResultError(
                f"{len(wrong)} of {SMOKERS} have smoked more or less often than they were chosen"
            )
        return sum(self.smoked) + sum(self.sent_home) + self.begun + self.gone

    def outcome(self, elapsed: int) -> Outcome:
        return Outcome(total=elapsed, operations=self.messages, sent=self.messages, handled=self.handled())


def plain(setting: Setting) -> Outcome:
    books, tasks = Books(setting.size), limit.Tasks()
    append, smoked, choices = tasks.append, books.smoked, iter(chosen(books.rounds))

    def arbitrate(_ctx: None, message: str) -> None:
        if message == GONE:
            books.gone += 1
            return
        books.begun += 1
        if (choice := next(choices, None)) is not None:
            append((smokers[choice[0]], choice[1]))
        else:
            tasks.extend((each, HOME) for each in smokers)

    def smoker(number: int) -> limit.Handler:
        def smoke(_ctx: None, steps: int) -> None:
            if steps:
                smoked[number] += 1
                append((arbitrate, BEGUN))
                dice.work(steps)
            else:
                books.sent_home[number] += 1
                append((arbitrate, GONE))

        return smoke

    smokers = [smoker(number) for number in range(SMOKERS)]
    append((arbitrate, BEGUN))
    return books.outcome(limit.drain(tasks))


def arbiter(stage: Stage, books: Books, smokers: list[Who]) -> Handler:
    send, choices = stage.send, iter(chosen(books.rounds))

    def arbitrate(_me: object, message: str) -> None:
        if message == GONE:
            books.gone += 1
            if books.gone == SMOKERS:
                stage.finish()
            return
        books.begun += 1
        if (choice := next(choices, None)) is not None:
            send(smokers[choice[0]], choice[1])
        else:
            for each in smokers:
                send(each, HOME)

    return arbitrate


def smoker(stage: Stage, books: Books, number: int, chooser: Who) -> Handler:
    send, end, smoked = stage.send, stage.end, books.smoked

    def smoke(_me: object, steps: int) -> object:
        if steps:
            smoked[number] += 1
            send(chooser, BEGUN)
            dice.work(steps)
            return None
        books.sent_home[number] += 1
        send(chooser, GONE)
        return end

    return smoke


def program(stage: Stage, setting: Setting) -> Play:
    books, smokers = Books(setting.size), list[Who]()
    chooser = stage.spawn(arbiter(stage, books, smokers))
    smokers += [stage.spawn(smoker(stage, books, number, chooser)) for number in range(SMOKERS)]
    return Play(
        begin=lambda: stage.send(chooser, BEGUN),
        operations=books.messages,
        sent=books.messages,
        handled=books.handled,
    )


class Arbiter(Actor):
    def __init__(self, books: Books, smokers: list[Smoker]) -> None:
        self.books = books
        self.smokers = smokers
        self.choices = iter(chosen(books.rounds))

    @tell
    def begun(self) -> None:
        self.books.begun += 1
        if (choice := next(self.choices, None)) is not None:
            who, steps = choice
            self.smokers[who].smoke(steps)
        else:
            for smoker in self.smokers:
                smoker.go_home()

    @tell
    def gone(self) -> None:
        self.books.gone += 1


class Smoker(Actor):
    def __init__(self, books: Books, number: int, arbiter: Arbiter) -> None:
        self.books = books
        self.number = number
        self.arbiter = arbiter

    @tell
    def smoke(self, steps: int) -> None:
        self.books.smoked[self.number] += 1
        self.arbiter.begun()
        dice.work(steps)

    @tell
    def go_home(self) -> None:
        self.books.sent_home[self.number] += 1
        self.arbiter.gone()
        self.stop()


def classes(setting: Setting) -> Outcome:
    books, loop, smokers = Books(setting.size), typed.make(), list[Smoker]()
    chooser = loop.spawn(Arbiter, books, smokers)
    smokers += [loop.spawn(Smoker, books, number, chooser) for number in range(SMOKERS)]
    elapsed = raw.drain(loop, chooser.begun)
    raw.settle(loop, books.messages)
    return books.outcome(elapsed)


def with_otp(setting: Setting) -> Outcome:
    return otp.run("smokers", setting.size, SMOKERS, SEED, STEPS, sent=Books(setting.size).messages)


CASE = Case(
    name="smokers",
    title="cigarette smokers, 200",
    what="an arbiter chooses one of two hundred at random, and then the next (Savina 14)",
    size=Size(full=1_000, slow=1_000, quick=100, least=1_000),
    savina=14,
    measures={
        "limit": plain,
        "typed": classes,
        **stages.measures(program),
        "erlang": with_otp,
    },
)
