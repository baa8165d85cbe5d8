"""A capability cannot tell where it is, and nobody else can: what is proved of capabilities on a node is proved here of the same, elsewhere.

The tests are those of other files, with every capability of theirs at the other end of a passage. So whatever they promise of lineage, deadlines,
cycles, restarts, overload, scheduled messages, Workers and functions holds there too.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

from bandstand.bus import Node
from tests.bus import (
    test_cycles,
    test_deadlines,
    test_hosting,
    test_isolation,
    test_lineage,
    test_outbound,
    test_overload,
    test_rare,
    test_restarts,
    test_routing,
    test_timers,
    test_watching,
    virtual_node,
)
from tests.bus.nearby import nearby
from tests.bus.test_hosting import show
from tests.bus.virtual_node import Source

pytestmark = pytest.mark.spec("C27")

MODULES = (
    *(test_cycles, test_deadlines, test_hosting, test_isolation, test_lineage, test_outbound),
    *(test_overload, test_rare, test_restarts, test_routing, test_timers, test_watching),
)

# A fixture of those tests.
__all__ = ("show",)

# One that starts elsewhere starts later than `Syscall.Reset` returns, as every one does that takes its time to start.
LATER = "test_one_that_cannot_start_stays_out_of_service"


@pytest.fixture(autouse=True)
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every node of a test run its capabilities elsewhere; which those were."""
    moved: list[str] = []

    def make(capabilities: Iterable[Source], **more: Any) -> Node:
        sources = [nearby(each, more.get("clock")) for each in capabilities]
        moved.extend(str(each) for each in sources)
        return Node(sources, **more)

    monkeypatch.setattr(virtual_node, "Node", make)
    return moved


def cases_of(module: ModuleType) -> dict[str, Any]:
    """The tests of another file, under names that are their own here."""
    short = module.__name__.rpartition("test_")[2]
    found: dict[str, Any] = {}
    for name, value in vars(module).items():
        if name.startswith("test_") and callable(value):
            found[f"test_{short}_{name.removeprefix('test_')}"] = value
        elif name.startswith("Test") and isinstance(value, type):
            # hypothesis wants a test to be called by one class only.
            others = {
                each: None for each, test in vars(value).items() if getattr(test, "is_hypothesis_test", False)
            }
            found[f"Test{short.capitalize()}{name.removeprefix('Test')}"] = type(
                name, (value,), {LATER: None, **others}
            )
    return found


for each in MODULES:
    globals().update(cases_of(each))


@pytest.mark.guarantee("G152")
def test_they_were_elsewhere(elsewhere: list[str]) -> None:
    """The test of the tests: what they play on is what this file has put there."""
    test_cycles.test_who_would_wait_for_itself_is_told_the_way(["A"], "A (A.Go) asks A (A.Go)")
    assert elsewhere
    assert all("Nearby" in source for source in elsewhere)
