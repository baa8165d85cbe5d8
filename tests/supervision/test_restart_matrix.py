"""Every kind of exit in every mode, under every strategy, at every position: which children are new, gone or untouched."""

from __future__ import annotations

import logging

import pytest

from bandstand.core import ActorStatus, ExitReason, Loop
from bandstand.supervision import ChildSpec, Phase, RestartPolicy, Strategy
from tests.core.support import run_message, settle
from tests.supervision.helpers import EVERY_END, id_of, phases_of, restarts, supervise, watched

pytestmark = [pytest.mark.spec("J18"), pytest.mark.guarantee("G47")]


NAMES = "abc"


P, T, X = RestartPolicy.ALWAYS, RestartPolicy.ON_FAILURE, RestartPolicy.NEVER
NORMAL, FAIL, PANIC = ExitReason

# What becomes of the one that ended.
FATES = {
    (P, NORMAL): "new",
    (P, FAIL): "new",
    (P, PANIC): "new",
    (T, NORMAL): "down",
    (T, FAIL): "new",
    (T, PANIC): "new",
    (X, NORMAL): "gone",
    (X, FAIL): "gone",
    (X, PANIC): "gone",
}

# If it is started again: who else is ended for it, in the order in which they are.
ENDED_WITH_IT = {
    (Strategy.ONE_FOR_ONE, "a"): "",
    (Strategy.ONE_FOR_ONE, "b"): "",
    (Strategy.ONE_FOR_ONE, "c"): "",
    (Strategy.ONE_FOR_ALL, "a"): "cb",
    (Strategy.ONE_FOR_ALL, "b"): "ca",
    (Strategy.ONE_FOR_ALL, "c"): "ba",
    (Strategy.REST_FOR_ONE, "a"): "cb",
    (Strategy.REST_FOR_ONE, "b"): "c",
    (Strategy.REST_FOR_ONE, "c"): "",
}

# What becomes of a sibling that was ended for it.
SIBLINGS = {P: "new", T: "new", X: "gone"}


@pytest.mark.spec("J3", "J17")
@pytest.mark.guarantee("G22")
@pytest.mark.parametrize("others", [P, T, X], ids=lambda mode: f"among-{mode.value}")
@pytest.mark.parametrize("dying", list(NAMES))
@pytest.mark.parametrize("strategy", list(Strategy), ids=lambda strategy: strategy.value)
@pytest.mark.parametrize("how", list(EVERY_END))
@pytest.mark.parametrize("mode", [P, T, X], ids=lambda mode: mode.value)
def test_matrix(
    loop: Loop,
    caplog: pytest.LogCaptureFixture,
    mode: RestartPolicy,
    how: str,
    strategy: Strategy,
    dying: str,
    others: RestartPolicy,
) -> None:
    end, reason, _ = EVERY_END[how]
    children = [ChildSpec(name, run_message, restart=mode if name == dying else others) for name in NAMES]
    tree = supervise(loop, *children, strategy=strategy)
    before = {name: id_of(tree, name) for name in NAMES}
    recorder = watched(loop)

    end(loop, before[dying])
    settle(loop)

    # What is expected, from the tables.
    expected = dict.fromkeys(NAMES, "kept") | {dying: FATES[mode, reason]}
    with_it = ENDED_WITH_IT[strategy, dying] if expected[dying] == "new" else ""
    expected |= dict.fromkeys(with_it, SIBLINGS[others])
    new = [name for name in NAMES if expected[name] == "new"]

    found = {info.name: info for info in tree.children()}
    for name, fate in expected.items():
        if fate == "gone":
            assert name not in found, f"{name} is forgotten"
            continue
        actor = found[name].actor
        if fate == "down":
            assert actor is None
            assert found[name].phase is Phase.DOWN
        elif fate == "kept":
            assert actor == before[name]
        else:
            assert actor is not None
            assert actor != before[name]
        assert tree.child(name) == actor
    assert list(found) == [name for name in NAMES if expected[name] != "gone"], "their order is as it was"
    assert restarts(tree) == {name: int(name in new) for name in found}
    assert set(phases_of(tree).values()) <= {Phase.UP, Phase.DOWN}

    # The observer has seen each end and each start once, in order, and the old ids are stale.
    ended = [dying, *with_it]
    assert recorder.stopped == [(before[dying], reason), *((before[name], NORMAL) for name in with_it)]
    assert [name for _, name in recorder.started] == new
    assert [actor for actor, _ in recorder.started] == [found[name].actor for name in new]
    assert recorder.restarted == [(tree.actor, found[name].actor, 1) for name in new]
    assert recorder.escalated == []
    assert all(loop.status(before[name]) >= ActorStatus.STOPPED for name in ended)
    assert loop.status(tree.actor) is ActorStatus.RUNNING

    # One line for a restart, one for an abnormal end without, none for a normal end.
    lines = [entry for entry in caplog.records if entry.name == "bandstand.supervision"]
    if new:
        assert [(line.levelno, getattr(line, "child", "")) for line in lines] == [(logging.WARNING, dying)]
    else:
        assert len(lines) == (reason is not NORMAL)


# --- what a matrix of three fresh children cannot show ----------------------------------------------------------------------
