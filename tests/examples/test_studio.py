"""The studio as an example: four kinds of stages, and players who are killed while they play."""

from __future__ import annotations

import asyncio
import re

import pytest

from bandstand import ActorSystem
from examples.studio.actors import WIDTH, Display, DisplayPeers, Engine, EnginePeers, Log, Metrics, Settings
from tests.examples.running import run

KILLS = 2


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.timeout(90)
@pytest.mark.real_time(reason="processes are killed")
def test_it_plays_on_while_its_players_are_killed() -> None:
    done = run("studio", "--kills", KILLS, "--frames", 10, timeout=80)
    assert done.returncode == 0, done.stderr
    # A frame and its figures may be under way when the display and the telemetry are closed, and the engine's process says so.
    lost = r"(Display\.show\(\) for 'display'|Metrics\.add\(\) for 'metrics') was not delivered: [^\n]*\n"
    assert re.fullmatch(f"({lost})*", done.stderr)
    assert len(re.findall(r"the engine was killed \(process \d+\); the next one plays", done.stdout)) == KILLS
    assert done.stdout.count("the vsync has crashed; the next one ticks") == KILLS
    engines = re.findall(r"frame \d+ comes from process (\d+)", done.stdout)
    assert len(engines) == len(set(engines)) == KILLS + 1
    counts = dict(re.findall(r"(shown|left out|drawn) (\d+)", done.stdout))
    assert int(counts["shown"]) >= 10 * (KILLS + 1)
    assert f"restarts: vsync {KILLS}, engine_pod {KILLS}, display 0, telemetry 0" in done.stdout


def test_the_same_engine_draws_on_a_plain_loop() -> None:
    async def main() -> tuple[dict[str, int], list[str]]:
        async with ActorSystem() as loop:
            metrics, log = loop.spawn(Metrics), loop.spawn(Log)
            display = loop.spawn(Display, DisplayPeers(metrics=metrics, log=log))
            peers = EnginePeers(settings=loop.spawn(Settings, 0.1), display=display, metrics=metrics)
            engine = loop.spawn(Engine, peers)
            for number in range(5):
                engine.frame(number)
            engine.resize(WIDTH // 2)
            for each in (engine, display):
                each.stop(drain=True)
                await each.ended()
            return await metrics.read(), await log.read()

    counts, lines = asyncio.run(main())
    assert counts == {"shown": 5, "drawn": 5}
    assert len(lines) == 1
