"""Batches: both builds form the same batches from the same mailbox, and send the same replies."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parity.builds import Build
from tests.parity.test_structures import same

STEPS = st.lists(st.sampled_from(["store", "find", "other", "back", "crash", "run"]), max_size=40)


def writers_of(service: Any, log: list[Any]) -> Any:
    class Writer(service.Actor):  # type: ignore[misc]  # of either build
        @service.batch(limit=3)  # type: ignore[untyped-decorator]  # same
        def store(self, rows: list[int]) -> None:
            log.append(rows)
            if 13 in rows:
                raise ValueError(rows)

        @service.batch_ask(limit=2)  # type: ignore[untyped-decorator]  # same
        def find(self, keys: list[int]) -> list[int]:
            log.append(keys)
            return [key * 10 for key in keys]

        @service.tell  # type: ignore[untyped-decorator]  # same
        def other(self, number: int) -> None:
            log.append(number)

    return Writer


@pytest.mark.guarantee("G231", "G232", "G233")
@given(STEPS)
def test_batches(steps: list[str]) -> None:
    def play(build: Build) -> list[Any]:
        service = build.actor
        log: list[Any] = []

        kind = writers_of(service, log)
        loop = service.ActorSystem()
        writer = loop.spawn(kind)
        replies: list[Any] = []
        for number, step in enumerate(steps):
            if step == "run":
                loop.poll_once()
            elif not service.is_alive(writer):
                writer = loop.spawn(kind)
            elif step == "find":
                replies.append(writer.find(number))
            elif step == "back" and replies:
                log.append(replies[-1].cancel())
            elif step == "crash":
                writer.store(13)
            else:
                (writer.other if step == "other" else writer.store)(number)
        loop.poll_once()
        loop.poll_once()
        log += [repr(reply).split(":")[0] for reply in replies]
        books = loop.statistics()
        log.append((books.sent, books.handled, books.dead, books.waiting))
        loop.destroy()
        return log

    same(play)
