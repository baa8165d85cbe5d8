"""Hooks of the kernel and the runner for other packages: running loops, exit callbacks, budgets, calls at the end, tick hooks."""

from __future__ import annotations

from functools import partial

import pytest

from bandstand.core import ExitReason, Loop
from bandstand.core.asyncio_host import running_loops
from bandstand.testing import run_async
from tests.core.support import HostFactory, LoopMaker, idle, settle

# -- which loops ride the running event loop ---------------------------------------------------------------------------


def test_running_loops_are_found(make_loop: LoopMaker, loop_factory: HostFactory) -> None:
    found: list[list[Loop]] = []

    async def main() -> None:
        assert running_loops() == []
        async with make_loop() as one:
            assert running_loops() == [one]
            async with make_loop() as other:
                assert running_loops() == [one, other]
            assert running_loops() == [one]
        assert running_loops() == []

    run_async(main, loop_factory=loop_factory)
    loop = make_loop()
    actor = loop.spawn(lambda _ctx, _data: found.append(running_loops()))
    loop.send(actor, None)
    loop.run(until_idle=True)
    assert found == [[loop]]
    assert running_loops() == []


# -- hearing of an end -------------------------------------------------------------------------------------------------


def test_an_exit_callback_can_be_removed_twice(loop: Loop) -> None:
    heard: list[ExitReason] = []
    actor = loop.spawn(idle)
    forget = loop.kernel.actors.on_exit(actor, lambda why, _cause: heard.append(why))
    forget()
    forget()
    loop.fail_actor(actor)
    assert heard == []
    loop.kernel.actors.on_exit(actor, lambda why, _cause: heard.append(why))()
    assert heard == [ExitReason.FAIL], "for an ended actor it runs at once"


def test_end_callbacks_of_a_loop_run_once(loop: Loop, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[str] = []

    def broken() -> None:
        heard.append("broken")
        raise OSError("broken")

    loop.runner.on_end(lambda: heard.append("first"))
    loop.runner.on_end(broken)
    loop.runner.on_end(lambda: heard.append("taken back"))()
    loop.runner.on_end(lambda: heard.append(str(loop.statistics().alive)))
    loop.spawn(idle)
    loop.destroy()
    assert heard == ["first", "broken", "0"]
    assert "called at the end of the loop, raised" in caplog.text


@pytest.mark.parametrize(("budget", "order"), [(1, "ababab"), (0, "aaabbb")])
def test_a_budget_of_0_is_the_loops_own(loop: Loop, seen: list[str], budget: int, order: str) -> None:
    actors = [loop.spawn(lambda ctx, data: seen.append(data)) for _ in range(2)]
    for actor, name in zip(actors, "ab", strict=True):
        loop.kernel.set_budget(actor, 1)
        loop.kernel.set_budget(actor, budget)
        for _ in range(3):
            loop.send(actor, name)
    settle(loop)
    assert "".join(seen) == order


# -- heirs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ms", [0, 1, 63, 64, 5000, 10**9])
def test_the_fallback_of_a_call_later_runs_at_the_end(loop: Loop, ms: int, seen: list[str]) -> None:
    loop.kernel.call_later(ms, lambda: seen.append("called"), lambda: seen.append("inherited"))
    cancel = loop.kernel.call_later(ms, lambda: seen.append("called"), lambda: seen.append("wrong"))
    loop.kernel.call_later(ms, lambda: seen.append("called"))
    cancel()
    loop.destroy()
    assert seen == ["inherited"]


# -- rounds --------------------------------------------------------------------------------------------------------------


def seen_in_a_round(loop: Loop, seen: list[str]) -> list[str]:
    """Who is called after one round."""
    seen.clear()
    loop.poll_once()
    return list(seen)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_tick_hooks_can_be_removed_in_any_order(loop: Loop, order: tuple[int, ...], seen: list[str]) -> None:
    names = ["first", "second", "third"]
    take_back = [loop.runner.watch_ticks(partial(seen.append, name)) for name in names]
    loop.runner.set_tick_hook(lambda: seen.append("park"))
    assert seen_in_a_round(loop, seen) == ["park", *names]
    left = list(names)
    for place in order:
        take_back[place]()
        take_back[place]()
        left.remove(names[place])
        assert seen_in_a_round(loop, seen) == ["park", *left]
    loop.runner.set_tick_hook(None)
    assert seen_in_a_round(loop, seen) == []


def test_a_tick_hook_may_remove_another(loop: Loop, seen: list[str]) -> None:

    def first() -> None:
        seen.append("first")
        stop_second()

    stop_first = loop.runner.watch_ticks(first)
    stop_second = loop.runner.watch_ticks(lambda: seen.append("second"))
    assert seen_in_a_round(loop, seen) == ["first"]
    stop_first()
    assert seen_in_a_round(loop, seen) == []
