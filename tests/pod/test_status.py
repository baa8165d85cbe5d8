"""Status and health: frozen data, plain values for JSON, and words for people."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, replace
from typing import Any

import msgspec
import pytest

from bandstand.errors import InvalidArgumentError
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.status import Health, PodStatus, RoleStatus, TroupeStatus
from bandstand.supervision import RestartPolicy

ENGINE = PodStatus(
    name="engine_pod",
    phase=PodPhase.RUNNING,
    reason="",
    number=3,
    is_gone=False,
    thread=ThreadModel.PROCESS,
    restart=RestartPolicy.ON_FAILURE,
    roles=(
        RoleStatus(name="engine", kind="Engine", is_exposed=True, waiting=4),
        RoleStatus(name="config", kind="Config", is_exposed=False, waiting=1),
    ),
    up_s=12.34,
    process=4711,
    core=1,
)
DISPLAY = PodStatus(
    name="display",
    phase=PodPhase.FAILED,
    reason="Display failed:\n  ValueError: no window",
    number=1,
    is_gone=True,
    thread=ThreadModel.MAIN,
    restart=RestartPolicy.NEVER,
    roles=(RoleStatus(name="display", kind="Display", is_exposed=False, waiting=None),),
)
EFFECTS = TroupeStatus(name="effects", is_running=True, up_s=5.0, pods=(replace(ENGINE, name="reverb"),))
STUDIO = TroupeStatus(name="Studio", is_running=True, up_s=62.0, pods=(ENGINE, DISPLAY), nested=(EFFECTS,))


@pytest.mark.spec("S1")
def test_a_table_has_a_line_for_each_pod() -> None:
    assert STUDIO.table() == (
        "Studio: running for 1 min 2 s\n"
        "pod             phase         thread   restart     no.  up      where                 roles          waiting  reason\n"
        "engine_pod      running       process  on_failure  3    12.3 s  process 4711, core 1  engine config  5\n"
        "display         failed, gone  main     never       1                                  display                 "
        "Display failed: ValueError: no window\n"
        "effects.reverb  running       process  on_failure  3    12.3 s  process 4711, core 1  engine config  5"
    )
    assert str(STUDIO) == STUDIO.table()


def test_what_nobody_has_is_left_out_and_long_reasons_are_cut() -> None:
    pod = PodStatus(
        name="a",
        phase=PodPhase.PENDING,
        reason="x" * 61,
        number=0,
        is_gone=False,
        thread=ThreadModel.COOPERATIVE,
        restart=RestartPolicy.ALWAYS,
    )
    table = TroupeStatus(name="Plain", is_running=False, up_s=None, pods=(pod,)).table()
    assert table == (
        "Plain: not running\n"
        "pod  phase    thread       restart  no.  reason\n"
        f"a    pending  cooperative  always   0    {'x' * 59}…"
    )
    bare = TroupeStatus(name="Bare", is_running=True, up_s=0.25).table()
    assert bare.splitlines()[0] == "Bare: running for 0.2 s"
    assert len(bare.splitlines()) == 2


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0.0 s"),
        (59.94, "59.9 s"),
        (60, "1 min 0 s"),
        (3599.9, "59 min 59 s"),
        (3600, "1 h 0 min"),
        (86_399, "23 h 59 min"),
        (90_000, "1 d 1 h"),
    ],
)
def test_how_long_it_plays(seconds: float, words: str) -> None:
    table = TroupeStatus(name="Studio", is_running=True, up_s=seconds).table()
    assert table.splitlines()[0] == f"Studio: running for {words}"


def test_a_pod_is_found_by_its_name() -> None:
    assert STUDIO.pod("engine_pod") is ENGINE
    assert STUDIO.pod("effects.reverb") is EFFECTS.pods[0]
    assert [*STUDIO] == [ENGINE, DISPLAY]
    for name in ("nobody", "effects", "studio.reverb"):
        with pytest.raises(InvalidArgumentError) as caught:
            STUDIO.pod(name)
        assert str(caught.value) == (
            f"troupe 'Studio' has no pod {name!r}; it has engine_pod, display, effects.reverb"
        )
    with pytest.raises(InvalidArgumentError, match="troupe 'effects' has no pod 'x'; it has reverb"):
        STUDIO.pod("effects.x")


def test_numbers_of_a_pod() -> None:
    assert (ENGINE.restarts, ENGINE.waiting) == (2, 5)
    assert (replace(ENGINE, number=0).restarts, DISPLAY.waiting) == (0, None)


def test_it_is_json_with_whatever_makes_json() -> None:
    plain = json.loads(json.dumps(STUDIO.to_dict()))
    assert plain == STUDIO.to_dict()
    assert plain["pods"][0]["phase"] == "running"
    assert plain["pods"][0]["roles"][1] == {
        "name": "config",
        "kind": "Config",
        "is_exposed": False,
        "waiting": 1,
    }
    assert plain["nested"][0]["pods"][0]["name"] == "reverb"
    encoded = msgspec.json.encode(STUDIO)
    assert msgspec.json.decode(encoded, type=TroupeStatus) == STUDIO
    assert json.loads(encoded)["pods"][1]["thread"] == "main"


def test_it_is_frozen() -> None:
    loose: Any
    for loose, field in ((STUDIO, "name"), (ENGINE, "phase"), (ENGINE.roles[0], "waiting"), (WELL, "down")):
        with pytest.raises(FrozenInstanceError):
            setattr(loose, field, None)


# --- health -----------------------------------------------------------------------------------------------------------

WELL = Health(troupe="Studio", is_kubelet_alive=True, is_kubelet_prompt=True, kubelet_latency=0.0002)


def test_all_is_well() -> None:
    assert WELL
    assert WELL.problems == ()
    assert str(WELL) == "troupe 'Studio' is healthy"


@pytest.mark.spec("S18")
def test_what_is_wrong_is_said() -> None:
    stalled = replace(WELL, is_kubelet_prompt=False, kubelet_latency=0.5127)
    assert not stalled
    assert str(stalled) == (
        "troupe 'Studio': its kubelet has not answered for 513 ms: something blocks its thread, most likely a handler of a "
        "cooperative pod"
    )
    told = replace(stalled, kubelet_at="at report.py:12 in Metrics.add")
    assert str(told).endswith("something blocks its thread, at report.py:12 in Metrics.add")
    dead = replace(stalled, is_kubelet_alive=False)
    assert dead.problems == ("troupe 'Studio': its kubelet does not run, so its pods are not restarted",)
    ill = replace(
        WELL, down=("a",), gone=("b", "c"), stuck=("d",), nested=(replace(stalled, troupe="effects"),)
    )
    assert ill.problems[:-1] == (
        "troupe 'Studio': pod 'a' is down, and will be restarted",
        "troupe 'Studio': pod 'b' has failed, and will not be restarted",
        "troupe 'Studio': pod 'c' has failed, and will not be restarted",
        "troupe 'Studio': pod 'd' has not answered in time: a handler keeps it busy",
    )
    assert ill.problems[-1].startswith("troupe 'effects': its kubelet has not answered")


def test_health_is_json_as_well() -> None:
    ill = replace(WELL, gone=("b",), nested=(replace(WELL, troupe="effects"),))
    plain = json.loads(json.dumps(ill.to_dict()))
    assert plain["problems"] == ["troupe 'Studio': pod 'b' has failed, and will not be restarted"]
    assert plain["nested"][0]["troupe"] == "effects"
    assert msgspec.json.decode(msgspec.json.encode(ill), type=Health) == ill
