"""Supervisors do the same in both modes: the same script gives the same transcript."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.testing import VirtualClock
from tests.parity.builds import Build
from tests.parity.test_structures import outcome, same

QUARTERS = st.integers(0, 400).map(lambda number: number / 4)
STEPS = [
    "panic", "panic", "panic", "fail", "stop", "hold", "resume", "add", "delete", "time", "time", "end", "full",
]  # fmt: skip


@given(
    limit=st.integers(0, 5),
    period=st.integers(1, 200).map(lambda number: number / 4),
    gaps=st.lists(st.tuples(QUARTERS, st.booleans(), st.sampled_from([0, 1, 2])), max_size=60),
)
def test_restarts_are_planned_alike(limit: int, period: float, gaps: list[tuple[float, bool, int]]) -> None:
    def play(build: Build) -> list[str]:
        intensity, history = build.supervision.Intensity(limit, period / 1000), build.supervision.History()
        backoff, reasons = build.supervision.Backoff(jitter=0.003), list(build.core.ExitReason)
        log, now, stored = list[str](), 0.0, 0.0
        for gap, waits, reason in gaps:
            now += gap
            given_ = backoff if waits else None
            plan = build["bandstand.supervision.restart.plan_restart"](
                intensity, history, now, given_, reasons[reason], stored, gap, 0.25
            )
            log += [repr(plan), repr(len(history)), repr(plan.history == history)]
            history, stored = plan.history, plan.stored_ms
        return log

    same(play)


def test_a_history_and_a_plan_are_as_closed_in_both() -> None:
    def play(build: Build) -> list[str]:
        history = build.supervision.History((1, 2.5))
        plan = build["bandstand.supervision.restart.RestartPlan"](
            gives_up=False, delay_ms=0.0, stored_ms=1.5, history=history
        )
        log = [repr(history), repr(plan), repr(hash(plan) == hash(copy.copy(plan))), repr(plan == 1)]
        log += [outcome(setattr, made, "anything", 1) for made in (history, plan)]
        log += [outcome(lambda: pickle.loads(pickle.dumps(made)) == made) for made in (history, plan)]  # noqa: B023 -- called at once
        return [*log, outcome(build.supervision.History, 1), outcome(history.add, None, 1)]

    same(play)


def transcript(build: Build, strategy: int, steps: list[tuple[str, int]]) -> list[Any]:
    words, log, clock = build.supervision, list[Any](), VirtualClock()

    def init(ctx: Any) -> list[int]:
        log.append(("init", ctx.self_id is not None))
        return []

    def behavior(ctx: Any, data: Any) -> Any:
        ctx.state.append(data)
        log.append((data, len(ctx.state)))
        if data == "panic":
            raise ValueError
        return {"fail": build.core.FAIL, "stop": build.core.STOP}.get(data)

    modes = list(words.RestartPolicy)
    children = [
        words.ChildSpec(
            f"c{at}",
            behavior,
            init=init,
            restart=modes[at % 2],
            keep_mailbox=at // 2 % 2 == 1,
            backoff=words.Backoff(initial=0.01, maximum=0.04) if at == 1 else None,
        )
        for at in range(4)
    ]
    spec = words.SupervisorSpec(
        children=children, strategy=list(words.Strategy)[strategy], max_restarts=4, period=0.05
    )
    loop = build.core.Loop(clock=clock)
    try:
        root = words.spawn_supervisor(loop, spec)

        def take(step: str, at: int) -> object:
            match step:
                case "panic" | "fail" | "stop":
                    loop.send(root.address(f"c{at}"), step)
                case "hold":
                    return root.stop_child(f"c{at}")
                case "resume":
                    return int(root.restart_child(f"c{at}")) & 0xFFFFFF
                case "add":
                    root.start_child(
                        words.ChildSpec(f"c{at + 4}", behavior, init=init, restart=modes[at % 3])
                    )
                case "delete":
                    root.delete_child(f"c{at + 4}")
                case "time":
                    clock.advance((at * 7) / 1000)
                case "full":
                    return loop.send(root.actor, "nobody's")
                case _:
                    return root.stop() if at == 0 else None
            return None

        for step, at in steps:
            log.append((step, outcome(take, step, at)))
            for _ in range(6):
                loop.poll_once()
            log.append([(c.name, c.phase.name, c.restarts, c.actor is None) for c in root.children()])
        log.append((type(root.outcome).__name__, str(root.outcome), repr(loop.statistics())))
    except Exception as error:  # noqa: BLE001 -- one that has given up ends the loop
        log.append((type(error).__name__, str(error)))
    finally:
        loop.destroy()
    return log


@pytest.mark.slow
@pytest.mark.spec("J19")
@given(
    strategy=st.sampled_from([0, 1, 2]),
    steps=st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 3)), max_size=40),
)
def test_a_random_play_has_one_transcript(strategy: int, steps: list[tuple[str, int]]) -> None:
    same(lambda build: transcript(build, strategy, steps))
