"""The report of a failed capability names the capability, and the message with its data."""

from __future__ import annotations

import asyncio
import logging

import pytest

from bandstand.bus import Capability, Node, Query
from bandstand.errors import RequestFailedError

pytestmark = [pytest.mark.guarantee("G326"), pytest.mark.once]


class Divide(Query[int], type="Sums.Divide"):
    """Divide 100 by a number."""

    by: int
    note: str = ""


class Sums(Capability):
    """Does sums."""

    def divide(self, msg: Divide) -> int:
        return 100 // msg.by


def test_the_report_names_capability_message_and_data(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with Node([Sums]) as node:
            with pytest.raises(RequestFailedError, match="ActorCrash"):
                await node.bus.ask(Divide(0, note="x" * 5000))

    with caplog.at_level(logging.WARNING, "bandstand.supervision"):
        asyncio.run(main())
    report = next(record.getMessage() for record in caplog.records if "restarts child" in record.getMessage())
    assert "\n  class: Sums\n" in report
    assert '\n  message: Sums.Divide {"by":0,"note":"xxx' in report
    assert len(report) < 2000
