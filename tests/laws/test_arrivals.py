"""Messages from other threads, compared with a model: which are accepted, refused or dropped, and in which order they are handled.

`send_async` on the loop's own thread is the same call, so most examples need no thread. The last test has real threads.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.core import ActorId, Context, Lane, Loop, LoopConfig, Overflow
from bandstand.errors import LoopClosedError, MailboxFullError, NoSuchActorError
from bandstand.testing import VirtualClock
from tests.core.support import USER_LANES, check_statistics

PATIENCE = 30
RESERVE = 4
lanes = st.sampled_from(USER_LANES)


class Message(NamedTuple):
    number: int
    lane: Lane


class MailboxModel:
    """The model of one mailbox: three lanes, and the slots that are promised."""

    def __init__(self, actor: ActorId, cap: int, policy: Overflow) -> None:
        self.actor = actor
        self.room = cap - RESERVE
        self.policy = policy
        self.waiting: dict[Lane, deque[int]] = {lane: deque() for lane in USER_LANES}
        self.promised: Counter[Lane] = Counter()

    def is_full(self, lane: Lane) -> bool:
        return len(self.waiting[lane]) + self.promised[lane] >= self.room

    def overflow(self, message: Message) -> int:
        """Return the message that a full lane drops."""
        queue = self.waiting[message.lane]
        if self.policy is Overflow.DROP_NEWEST or not queue:
            return message.number
        given_up = queue.popleft() if self.policy is Overflow.DROP_OLDEST else queue.pop()
        queue.append(message.number)
        return given_up


class Arrivals:
    """A loop that is polled by hand, and what the model expects."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.count = 0
        self.mailboxes: list[MailboxModel] = []
        self.ended: list[MailboxModel] = []
        # What was let in and has not come in yet: whose, which, and whether it has its slot.
        self.inbox: list[tuple[MailboxModel, Message, bool]] = []
        self.seen: dict[ActorId, list[int]] = {}
        self.expected: dict[ActorId, list[int]] = {}
        self.dead: list[int] = []
        self.dead_expected: list[int] = []
        self.dropped: list[int] = []
        self.dropped_expected: list[int] = []
        self.refused = 0
        self.sent = 0
        loop.set_observer(self)
        for number in range(2):
            self.spawn(number, Lane.DATA, 0)

    # What the loop tells.

    def behavior(self, ctx: Context[Any], data: int) -> None:
        self.seen[ctx.self_id].append(data)

    def on_dead_letter(self, target: ActorId, lane: Lane, data: Any, tag: int, sender: ActorId | int) -> None:
        self.dead.append(data)

    def on_dropped(self, target: ActorId, lane: Lane, data: Any, tag: int, sender: ActorId | int) -> None:
        self.dropped.append(data)

    # What happens. Each action is given a number to choose by, a lane, and another number.

    def pick(self, which: int) -> MailboxModel:
        return self.mailboxes[which % len(self.mailboxes)]

    def spawn(self, which: int, lane: Lane, how: int) -> None:
        cap = 5 + which % 4
        policy = tuple(Overflow)[how % len(Overflow)]
        actor = self.loop.spawn(self.behavior, mailbox_cap=cap, overflow=policy)
        self.mailboxes.append(MailboxModel(actor, cap, policy))
        self.seen[actor] = []
        self.expected[actor] = []

    def send_async(self, which: int, lane: Lane, how: int) -> None:
        mailbox = self.pick(which)
        for _ in range(1 + how):
            unpromised = sum(1 for other, _, promised in self.inbox if other is mailbox and not promised)
            if unpromised >= mailbox.room + RESERVE:
                # A whole mailbox of them: where they are bounded is another law's business.
                return
            self.count += 1
            message = Message(self.count, lane)
            target = int(mailbox.actor) if how % 2 else mailbox.actor
            is_full = mailbox.is_full(lane)
            if is_full and mailbox.policy is Overflow.REJECT:
                with pytest.raises(MailboxFullError):
                    self.loop.send_async(target, message.number, lane=lane)
                self.refused += 1
                self.sent += 1
                continue
            self.loop.send_async(target, message.number, lane=lane)
            if not is_full:
                mailbox.promised[lane] += 1
            self.inbox.append((mailbox, message, not is_full))

    def send(self, which: int, lane: Lane, how: int) -> None:
        mailbox = self.pick(which)
        for _ in range(1 + how):
            self.count += 1
            self.sent += 1
            message = Message(self.count, lane)
            is_full = mailbox.is_full(lane)
            accepted = self.loop.try_send(mailbox.actor, message.number, lane=lane)
            assert accepted is not (is_full and mailbox.policy is Overflow.REJECT)
            if not accepted:
                self.refused += 1
            elif is_full:
                self.dropped_expected.append(mailbox.overflow(message))
            else:
                mailbox.waiting[lane].append(message.number)

    def end(self, which: int, lane: Lane, how: int) -> None:
        mailbox = self.pick(which)
        self.mailboxes.remove(mailbox)
        self.ended.append(mailbox)
        self.loop.stop_actor(mailbox.actor)
        for one in USER_LANES:
            self.dead_expected += mailbox.waiting[one]
        with pytest.raises(NoSuchActorError):
            self.loop.send_async(mailbox.actor, "too late", lane=lane)
        self.refused += 1
        self.sent += 1
        if not self.mailboxes:
            self.spawn(which, lane, how)

    def tick(self, which: int, lane: Lane, how: int) -> None:
        """Move what has arrived into the mailboxes, then handle all lanes."""
        for mailbox, message, promised in self.inbox:
            self.sent += 1
            self.arrive(mailbox, message, promised)
        self.inbox.clear()
        for mailbox in self.mailboxes:
            for one in USER_LANES:
                self.expected[mailbox.actor] += mailbox.waiting[one]
                mailbox.waiting[one].clear()
        self.loop.poll_once()
        assert self.loop.statistics().ready == 0

    def arrive(self, mailbox: MailboxModel, message: Message, promised: bool) -> None:
        if mailbox in self.ended:
            self.dead_expected.append(message.number)
        elif promised:
            mailbox.promised[message.lane] -= 1
            mailbox.waiting[message.lane].append(message.number)
        elif mailbox.is_full(message.lane):
            self.dropped_expected.append(mailbox.overflow(message))
        else:
            mailbox.waiting[message.lane].append(message.number)

    def check(self) -> None:
        assert self.seen == self.expected
        assert self.dead == self.dead_expected
        assert self.dropped == self.dropped_expected
        books = self.loop.statistics()
        assert (books.sent, books.refused) == (self.sent, self.refused)
        assert (books.dead, books.dropped) == (len(self.dead), len(self.dropped))
        check_statistics(self.loop)


# An action's weight is how often it stands here.
ACTIONS = (*(Arrivals.send_async,) * 6, *(Arrivals.send, Arrivals.tick) * 2, *(Arrivals.spawn, Arrivals.end))


@pytest.mark.slow
@pytest.mark.spec("J15", "J24")
@pytest.mark.guarantee("G37", "G5", "G9", "G10")
@settings(max_examples=4 * settings().max_examples)
@given(
    st.lists(
        st.tuples(st.sampled_from(ACTIONS), st.integers(0, 7), lanes, st.integers(0, 3)),
        min_size=5,
        max_size=80,
    )
)
def test_each_message_from_afar_has_the_fate_that_the_model_says(
    actions: list[tuple[Callable[[Arrivals, int, Lane, int], None], int, Lane, int]],
) -> None:
    # A visit handles whatever waits: the model need not know about budgets.
    with Loop(LoopConfig(max_msgs_per_actor=10_000), clock=VirtualClock()) as loop:
        arrivals = Arrivals(loop)
        for action, which, lane, how in actions:
            action(arrivals, which, lane, how)
            arrivals.check()
        arrivals.tick(0, Lane.DATA, 0)
        arrivals.check()
        assert loop.statistics().waiting == 0


class Script(NamedTuple):
    """What one thread sends: the actor and the lane of each message."""

    sends: list[tuple[int, Lane]]


scripts = st.lists(
    st.builds(Script, st.lists(st.tuples(st.integers(0, 2), lanes), max_size=60)), min_size=1, max_size=4
)


def check_order(place: int, state: list[Any], accepted: list[list[tuple[int, int, Lane]]]) -> None:
    """Check that an actor has handled the messages of each thread in order, lane by lane."""
    for who, sends in enumerate(accepted):
        for lane in USER_LANES:
            mine = [data[1] for data, of in state if data[0] == who and of is lane]
            due = [number for number, target, to in sends if target == place and to is lane]
            assert mine == due[: len(mine)], "in order, without a gap, none twice"


@pytest.mark.slow
@pytest.mark.spec("J15", "J24")
@pytest.mark.guarantee("G37", "G10", "G26")
@settings(max_examples=min(30, settings().max_examples))
@given(
    scripts_=scripts,
    caps=st.lists(st.integers(5, 40), min_size=3, max_size=3),
    ticks=st.integers(0, 30),
    stopped=st.integers(0, 3),
)
def test_threads_that_play_scripts(scripts_: list[Script], caps: list[int], ticks: int, stopped: int) -> None:
    with Loop(clock=VirtualClock()) as loop:
        seen: list[list[Any]] = [[], [], []]
        actors = [
            loop.spawn(lambda ctx, data: ctx.state.append((data, ctx.lane)), state, mailbox_cap=cap)
            for state, cap in zip(seen, caps, strict=True)
        ]
        accepted: list[list[tuple[int, int, Lane]]] = [[] for _ in scripts_]
        refused = [0] * len(scripts_)
        start = threading.Barrier(len(scripts_) + 1)

        def play(who: int) -> None:
            start.wait(PATIENCE)
            for number, (target, lane) in enumerate(scripts_[who].sends):
                try:
                    loop.send_async(actors[target], (who, number), lane=lane)
                except (MailboxFullError, NoSuchActorError, LoopClosedError):
                    refused[who] += 1
                else:
                    accepted[who].append((number, target, lane))

        threads = [threading.Thread(target=play, args=(who,)) for who in range(len(scripts_))]
        for thread in threads:
            thread.start()
        start.wait(PATIENCE)
        for tick in range(ticks):
            loop.poll_once()
            if tick == ticks // 2 and stopped < 3:
                loop.stop_actor(actors[stopped])
        loop.destroy()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        for place, state in enumerate(seen):
            check_order(place, state, accepted)
        books = loop.statistics()
        total = sum(map(len, accepted))
        assert books.handled == sum(map(len, seen))
        assert books.handled + books.dead == total
        assert books.refused == sum(refused)
        assert books.sent == total + sum(refused)
        check_statistics(loop)
