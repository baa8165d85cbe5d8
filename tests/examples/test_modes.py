"""The examples of modes and of waiting: what they print is what they promise."""

from __future__ import annotations

import pytest

from bandstand.testing import VirtualClock
from examples import turnstile
from tests.examples.running import output_of

pytestmark = pytest.mark.slow


@pytest.mark.guarantee("G238", "G240", "G241", "G242")
def test_the_turnstile(capsys: pytest.CaptureFixture[str]) -> None:
    # Who has paid must be through within 200 ms: a machine that has much to do may not be.
    clock = VirtualClock()
    clock.run(turnstile.main(clock))
    assert capsys.readouterr().out.splitlines() == [
        "a coin while it warms up waits",
        "  warming, 0 coins, 0 passed",
        "  green",
        "  unlocked, 1 coins, 0 passed",
        "Ann walks through, and Bob, who has not paid, does not",
        "  red",
        "  1 passed",
        "  event: Unhandled: Turnstile.walk_through() in state locked",
        "  refused: does not answer Turnstile.walk_through() in state locked: ask again when it is in another state",
        "the key, from locked and back; the coin that came meanwhile is not lost",
        "  in_service, 1 coins, 1 passed",
        "  green",
        "  unlocked, 2 coins, 1 passed",
        "the time to pass runs out",
        "  too late: locked again",
        "  red",
        "  locked, 2 coins, 1 passed",
    ]


@pytest.mark.guarantee("G245", "G247", "G248", "G249")
def test_the_chain() -> None:
    assert output_of("chain.py").splitlines() == [
        "the store is locked, and all of them wait:",
        "  waiter waits for kitchen: Kitchen.cook()",
        "  └── kitchen waits for store: Store.fetch()",
        "  the store is at Store.fetch(), and waits for: ()",
        "  actor.ping() of the store has timed out",
        "the door opens, and the waiter answers while he waits:",
        "  soup with salt for table 7",
        "a method that is not reentrant is an error at once:",
        "  AskCycleError: 2 of them wait for each other",
        "and the waiter is well: RUNNING, 0 messages wait",
    ]
