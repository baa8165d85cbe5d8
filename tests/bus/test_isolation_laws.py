"""Exactly one answer, whoever dies when: a law, in virtual time."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.testing import VirtualClock
from tests.bus.capabilities import told
from tests.bus.nearby import nearby
from tests.bus.test_isolation_passage import Mortal, Relaying
from tests.bus.virtual_node import ScriptedLine, Stage, hushed, play

pytestmark = pytest.mark.spec("C27")

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("do"), st.sampled_from(["", "emit", "raise", "refuse", "miss", "unsaid", "misname"])
        ),
        st.tuples(st.just("wait"), st.sampled_from([0, 1, 7, 40])),
        st.tuples(st.just("relay"), st.sampled_from([0, 20, 80])),
        st.tuples(st.just("remind"), st.booleans()),
        st.tuples(st.just("kill"), st.integers(0, 1)),
        st.tuples(st.just("pass"), st.sampled_from([0, 1, 5, 30])),
    ),
    max_size=25,
)


def say(client: ScriptedLine, step: str, value: Any) -> str:
    """Send the request of a step; what it is called."""
    match step:
        case "do":
            return client.command("Cast.Do", {"what": value})
        case "wait":
            return client.command("Cast.Wait", {"ms": value}, timeout=30)
        case "relay":
            return client.command("Relaying.Relay", {"ms": value})
        case _:
            return client.command("Relaying.Remind", {"ms": 10, "dies": value})


@pytest.mark.slow
@pytest.mark.guarantee("G153")
@given(steps=STEPS)
@settings(deadline=None)
def test_each_request_has_one_answer_and_each_promise_is_kept_once(steps: list[tuple[str, Any]]) -> None:
    clock = VirtualClock()
    sources = [nearby(Mortal, clock), nearby(Relaying, clock)]

    async def act(stage: Stage) -> None:
        seen = told(stage)
        client = stage.connect()
        names: list[tuple[str, str]] = []
        for step, value in steps:
            if step == "kill":
                sources[value].host_factory.opened[-1].kill()
            elif step == "pass":
                await stage.wait(value)
            else:
                names.append((step, say(client, step, value)))
        await stage.wait(60_000)
        answers = [(step, client.answer(name)) for step, name in names]
        # Those whose handler has come to its end, in whatever way, have scheduled something; of those that were killed, nobody knows.
        reminded = [frame for step, frame in answers if step == "remind"]
        sure = [
            frame for frame in reminded if frame.kind == "reply" or b"before it was sent" in bytes(frame.data)
        ]
        assert len(sure) <= seen.count("later") <= len(reminded)
        for capability in ("Cast", "Relaying"):
            assert (await stage.health(capability)).state == "running"

    with hushed():
        play(act, *sources, clock=clock)
