"""Whatever is sent, whatever comes back and whenever the link is lost: every message has one fate, and lanes keep their order."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from bandstand.errors import BandstandError, MailboxFullError
from tests.pod.linking import Role, instance, linked, play, until

pytestmark = pytest.mark.spec("S19")

DEEDS = st.lists(
    st.one_of(
        st.tuples(
            st.sampled_from(["note", "manage", "command", "slowly"]),
            st.sampled_from([0, 5, 3000, 70_000, 600_000]),
        ),
        st.tuples(st.sampled_from(["echo", "wait"]), st.sampled_from([0, 3000, 70_000])),
        st.tuples(st.sampled_from(["turn", "cancel", "gate"]), st.integers(min_value=0, max_value=5)),
    ),
    max_size=40,
)
LANE = {"note": "data", "slowly": "data", "wait": "data", "manage": "management", "command": "control"}


async def turn(times: int, _there: Any, _replies: list[Any]) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


async def cancel(which: int, _there: Any, replies: list[Any]) -> None:
    if replies:
        replies[which % len(replies)].cancel()


async def open_or_close(which: int, there: Any, _replies: list[Any]) -> None:
    if which % 2:
        there.gate.set()
    else:
        there.gate.clear()


HAPPENINGS = {"turn": turn, "cancel": cancel, "gate": open_or_close}


# A large answer that is being written when the link is lost.
LARGE_ANSWER = [("gate", 0), ("wait", 70_000), ("turn", 5), ("gate", 1), ("turn", 1)]


@pytest.mark.slow
@example(LARGE_ANSWER, "far", 1020)
@given(DEEDS, st.sampled_from(["drain", "near", "far"]), st.sampled_from([2, 8, 1020]))
def test_every_message_has_one_fate(deeds: list[tuple[str, int]], end: str, cap: int) -> None:
    async def main() -> None:
        async with linked(Role(mailbox=cap)) as (near, far):
            scribe = await near.handle()
            there = instance(far.ours["scribe"])
            sent: list[tuple[str, int]] = []
            replies: list[Any] = []
            for place, (deed, number) in enumerate(deeds):
                if deed in HAPPENINGS:
                    await HAPPENINGS[deed](number, there, replies)
                    continue
                with suppress(MailboxFullError):
                    reply = getattr(scribe, deed)((deed, place, "x" * number))
                    sent.append((deed, place))
                    if reply is not None:
                        replies.append(reply)
            if end == "drain":
                there.gate.set()
                await until(lambda: near.link.stats().sent == len(sent) and not near.link.stats().waiting)
                assert near.link.stats().handled == len(sent)
            elif end == "near":
                near.link.close("lost")
            else:
                far.link.close("lost")
                await until(lambda: near.downs)
            there.gate.set()
            stats = near.link.stats()
            assert stats.waiting == 0
            # What is not in the stats of the link was still with the stand-in, and dead there.
            assert stats.sent + near.proxy_loop.statistics().dead == len(sent)
            await until(lambda: far.loop.statistics().waiting == 0 and far.loop.statistics().in_flight == 0)
            check_replies(replies)
            check_order(there.notes, sent, stats.handled + stats.in_doubt)

    play(main)


def check_replies(replies: list[Any]) -> None:
    """Every ask has ended."""
    for reply in replies:
        assert reply.done()
        with suppress(BandstandError, asyncio.CancelledError):
            reply.result()


def check_order(notes: list[Any], sent: list[tuple[str, int]], most: int) -> None:
    """What was handled was sent, at most once, and in order in each lane."""
    seen = [(deed, place) for deed, place, _ in notes]
    assert len(set(seen)) == len(seen) <= most
    assert set(seen) <= set(sent)
    for lane in set(LANE.values()):
        places = [place for deed, place in seen if LANE[deed] == lane]
        assert places == sorted(places)
