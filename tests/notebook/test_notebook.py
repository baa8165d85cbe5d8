"""Actors in a notebook: start, use, stop, and run a cell again."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from bandstand import Actor, SupervisorSpec, ask, child, spawn_supervisor, tell
from bandstand.errors import InvalidArgumentError, LoopClosedError
from bandstand.notebook import start_system, stop_system

pytestmark = pytest.mark.guarantee("G344")


class Tally(Actor):
    def __init__(self) -> None:
        self.total = 0

    @tell
    async def add(self, number: int) -> None:
        await asyncio.sleep(0)
        self.total += number

    @ask
    def value(self) -> int:
        return self.total

    @tell
    def crash(self) -> None:
        raise RuntimeError("the tally is broken")


async def test_a_system_runs_until_it_is_stopped() -> None:
    system = await start_system()
    tally = system.spawn(Tally)
    for _ in range(5):
        tally.add(2)
    report = await stop_system()
    assert report is not None
    assert report.is_clean
    with pytest.raises(LoopClosedError):
        tally.add(1)
    assert await stop_system() is None
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_starting_again_replaces_the_system() -> None:
    first = (await start_system()).spawn(Tally)
    other = (await start_system(name="other")).spawn(Tally)
    second = (await start_system()).spawn(Tally)
    with pytest.raises(LoopClosedError):
        first.add(1)
    second.add(1)
    other.add(2)
    assert (await second.value(), await other.value()) == (1, 2)
    await stop_system()
    assert await other.value() == 2
    await stop_system(name="other")


async def test_a_supervisor_that_gives_up_ends_the_system_and_not_the_notebook(
    caplog: pytest.LogCaptureFixture,
) -> None:
    system = await start_system()
    spec = SupervisorSpec(children=[child("tally").of(Tally)], max_restarts=0)
    root = spawn_supervisor(system, spec)
    system.kernel.actors.fail_actor(root.address("tally"), RuntimeError("broken"))
    for _ in range(20):
        await asyncio.sleep(0)
    assert await stop_system() is None
    tally = (await start_system()).spawn(Tally)
    assert await tally.value() == 0
    await stop_system()
    assert "system 'main' has ended" in caplog.text


async def test_a_wrong_timeout_is_refused_before_anything_stops() -> None:
    tally = (await start_system()).spawn(Tally)
    with pytest.raises(InvalidArgumentError, match="timeout is 0"):
        await stop_system(timeout=0)
    assert await tally.value() == 0
    await stop_system()


CELLS = {
    "start": """
from bandstand import Actor, ask, tell
from bandstand.notebook import start_system, stop_system

class Counter(Actor):
    def __init__(self) -> None:
        self.count = 0

    @tell
    def add(self, number: int) -> None:
        self.count += number

    @ask
    def value(self) -> int:
        return self.count

system = await start_system()
counter = system.spawn(Counter)
""",
    "use": """
counter.add(20)
counter.add(22)
print(await counter.value())
""",
    "timer": """
import asyncio
done = asyncio.Event()

class Alarm(Actor):
    @tell
    def ring(self) -> None:
        done.set()

    def on_start(self) -> None:
        self.after(0.001, self.ring)

alarm = system.spawn(Alarm)
""",
    "wait": "await done.wait(); print('rang')",
    "stop again": "print(await stop_system())",
    "stop": "print((await stop_system()).is_clean)",
    "refused": """
try:
    counter.add(1)
except Exception as error:
    print(type(error).__name__)
""",
}


def run_cells(cells: list[str]) -> list[str]:
    """Run cells in a new Jupyter kernel, and return what each has printed. A cell that raises ends the test."""
    # Only the main environment has them.
    import nbformat
    from nbclient import NotebookClient

    form: Any = nbformat.v4
    notebook: Any = form.new_notebook(cells=[form.new_code_cell(cell) for cell in cells])
    NotebookClient(notebook, timeout=60, kernel_name="python3").execute()
    return ["".join(each.get("text", "") for each in cell.outputs).strip() for cell in notebook.cells]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.real_time(reason="a real Jupyter kernel")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("pure", ["", "1"])
def test_cells_of_a_real_notebook(pure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BANDSTAND_PURE", pure)
    # Each entry is run in its own cell; "start" again without a stop is what people do.
    order = [
        *("start", "use", "timer", "wait", "start", "use", "stop", "refused", "start", "use", "stop"),
        "stop again",
    ]
    assert run_cells([CELLS[name] for name in order]) == [
        "",
        "42",
        "",
        "rang",
        "",
        "42",
        "True",
        "LoopClosedError",
        "",
        "42",
        "True",
        "None",
    ]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.real_time(reason="a real Jupyter kernel")
@pytest.mark.timeout(120)
def test_the_cells_of_the_guide_run() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/recipes/notebooks.md").read_text("utf-8")
    cells = re.findall(r"^```py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(cells) == 4
    # The reader runs the first cell again.
    run_cells([cells[0], *cells])
