"""Bank transactions (Savina 16): a teller has 50,000 made between a thousand accounts. Measures request and answer where they meet.

The teller tells an account to transfer an amount to another. That one takes it off, asks the other to add it, and until it has the
answer it takes up nothing else: what comes meanwhile, transfers and deposits, it keeps. Then it tells the teller. So accounts wait
for accounts that wait; they never wait in a ring, since money only ever goes to an account with a higher number. As in
Savina, the senders are the first four fifths of the accounts, and the teller gives all its orders at once.

What is comparable. Who transfers what to whom is drawn beforehand from a seeded generator, and so the same in every system;
in the end every account must have what the plain sums say, whatever the order was. Questions and answers are one-way
messages, and what comes meanwhile is kept by hand, in a deque, because most systems have no stash and no wait for one message; Erlang
has, and waits for the answer by its reference. An operation is one message: four a transaction, and the one that starts it
all. `limit` is left out: it has no actor that could wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

from bandstand.actor import Actor, tell
from bench import dice, otp, raw, stages, typed
from bench.case import Case, Outcome, Setting, Size, WrongResultError
from bench.stage import Handler, Play, Stage, Who

ACCOUNTS = 1_000
SENDERS = ACCOUNTS // 10 * 8
SEED = 16
MOST = 1_000
"""The highest amount."""
BALANCE = 1_000_000
"""What everybody has in the beginning: nobody is ever short of money."""
TRANSFER, DEPOSIT, DONE = "transfer", "deposit", "done"


@cache
def transactions(n: int) -> Sequence[tuple[int, int, int]]:
    """Who sends to whom, and how much."""
    draws, drawn = dice.draws(SEED), list[tuple[int, int, int]]()
    for _ in range(n):
        sender = next(draws) % SENDERS
        recipient = sender + 1 + next(draws) % (ACCOUNTS - sender - 1)
        drawn.append((sender, recipient, 1 + next(draws) % MOST))
    return drawn


def checksum(balances: Sequence[int]) -> int:
    """A number that says whether everybody has what is his."""
    return sum(number * balance for number, balance in enumerate(balances, 1))


@dataclass
class Books:
    """What everybody has counted by himself."""

    transactions: int
    balances: list[int] = field(default_factory=lambda: [BALANCE] * ACCOUNTS)
    told: list[int] = field(default_factory=lambda: [0] * ACCOUNTS)
    """What each account was told."""
    begun: int = 0
    done: int = 0
    """What the teller was told."""

    @property
    def messages(self) -> int:
        return 1 + 4 * self.transactions

    def handled(self) -> int:
        """How many messages there were. Everybody must have what is his.

        Raises:
            WrongResultError: it is not so.
        """
        check(self.transactions, sum(self.balances), checksum(self.balances))
        return self.begun + self.done + sum(self.told)


def check(n: int, total: float, found: float) -> None:
    """Refuse a bank that has made or lost money, or given it to somebody else.

    Raises:
        WrongResultError: it has.
    """
    if total != ACCOUNTS * BALANCE:
        raise WrongResultError(f"there were {ACCOUNTS * BALANCE} in all, and now there are {total}")
    balances = [BALANCE] * ACCOUNTS
    for sender, recipient, amount in transactions(n):
        balances[sender] -= amount
        balances[recipient] += amount
    if found != checksum(balances):
        raise WrongResultError("no money is lost, but somebody has another's")


def account(stage: Stage, books: Books, number: int, clerk: Who, accounts: list[Who]) -> Handler:
    send, told, balances = stage.send, books.told, books.balances
    is_waiting, kept = False, deque[tuple[str, int, Who]]()

    def take(message: tuple[str, int, Who]) -> None:
        nonlocal is_waiting
        kind, amount, other = message
        if kind == DEPOSIT:
            balances[number] += amount
            send(other, DONE)
        else:
            is_waiting = True
            balances[number] -= amount
            send(other, (DEPOSIT, amount, accounts[number]))

    def handle(_me: object, message: tuple[str, int, Who] | str) -> None:
        nonlocal is_waiting
        told[number] += 1
        if isinstance(message, str):
            is_waiting = False
            send(clerk, DONE)
            while kept and not is_waiting:
                take(kept.popleft())
        elif is_waiting:
            kept.append(message)
        else:
            take(message)

    return handle


def teller(stage: Stage, books: Books, accounts: list[Who]) -> Handler:
    send = stage.send

    def handle(_me: object, message: str) -> None:
        if message == DONE:
            books.done += 1
            if books.done == books.transactions:
                stage.finish()
            return
        books.begun += 1
        for sender, recipient, amount in transactions(books.transactions):
            send(accounts[sender], (TRANSFER, amount, accounts[recipient]))

    return handle


def program(stage: Stage, setting: Setting) -> Play:
    books, accounts = Books(setting.size), list[Who]()
    transactions(books.transactions)
    clerk = stage.spawn(teller(stage, books, accounts), room=books.transactions + 1)
    for number in range(ACCOUNTS):
        accounts.append(stage.spawn(account(stage, books, number, clerk, accounts)))
    return Play(
        begin=lambda: stage.send(clerk, TRANSFER),
        operations=books.messages,
        sent=books.messages,
        handled=books.handled,
    )


class Teller(Actor):
    def __init__(self, books: Books, accounts: list[Account]) -> None:
        self.books = books
        self.accounts = accounts

    @tell
    def begin(self) -> None:
        self.books.begun += 1
        accounts = self.accounts
        for sender, recipient, amount in transactions(self.books.transactions):
            accounts[sender].transfer(amount, accounts[recipient])

    @tell
    def done(self) -> None:
        self.books.done += 1


class Account(Actor):
    def __init__(self, books: Books, number: int, teller: Teller) -> None:
        self.balances = books.balances
        self.told = books.told
        self.number = number
        self.teller = teller
        self.is_waiting = False
        self.kept = deque[tuple[str, int, Account]]()

    def on_start(self) -> None:
        self.own = self.me

    @tell
    def transfer(self, amount: int, recipient: Account) -> None:
        self.told[self.number] += 1
        if self.is_waiting:
            self.kept.append((TRANSFER, amount, recipient))
        else:
            self.withdraw(amount, recipient)

    @tell
    def deposit(self, amount: int, sender: Account) -> None:
        self.told[self.number] += 1
        if self.is_waiting:
            self.kept.append((DEPOSIT, amount, sender))
        else:
            self.add(amount, sender)

    @tell
    def deposited(self) -> None:
        self.told[self.number] += 1
        self.is_waiting = False
        self.teller.done()
        while self.kept and not self.is_waiting:
            kind, amount, other = self.kept.popleft()
            if kind == DEPOSIT:
                self.add(amount, other)
            else:
                self.withdraw(amount, other)

    def withdraw(self, amount: int, recipient: Account) -> None:
        self.is_waiting = True
        self.balances[self.number] -= amount
        recipient.deposit(amount, self.own)

    def add(self, amount: int, sender: Account) -> None:
        self.balances[self.number] += amount
        sender.deposited()


def classes(setting: Setting) -> Outcome:
    books, loop, accounts = Books(setting.size), typed.make(), list[Account]()
    transactions(books.transactions)
    teller = loop.options(mailbox=books.transactions).spawn(Teller, books, accounts)
    accounts += [loop.spawn(Account, books, number, teller) for number in range(ACCOUNTS)]
    elapsed = raw.drain(loop, teller.begin)
    n = books.messages
    raw.settle(loop, n)
    return Outcome(total=elapsed, operations=n, sent=n, handled=books.handled())


def with_otp(setting: Setting) -> Outcome:
    n = setting.size
    outcome = otp.run("bank", n, ACCOUNTS, SENDERS, SEED, MOST, BALANCE, sent=Books(n).messages)
    check(n, outcome.details["money"], outcome.details["checksum"])
    return outcome


CASE = Case(
    name="bank",
    title="bank transactions, 1,000 accounts",
    what="accounts ask each other to take money, each waiting for its answer (Savina 16)",
    size=Size(full=50_000, slow=50_000, quick=200),
    savina=16,
    measures={
        "typed": classes,
        **stages.measures(program),
        "erlang": with_otp,
    },
)
