"""The settings of a node that are its loop's: they can be given wherever the others can."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import Memory, Node, NodeConfig
from bandstand.cli.settings import read_settings
from bandstand.errors import InvalidArgumentError

pytestmark = [pytest.mark.guarantee("G302"), pytest.mark.once]


def test_a_node_sets_up_its_loop_by_them() -> None:
    config = NodeConfig(stall_timeout=0.25, max_msgs_per_actor=8, max_tick=0.0025)
    node = Node([Memory], config=config)
    seen = node.loop.config
    assert (seen.stall_timeout, seen.max_msgs_per_actor, seen.max_tick) == (0.25, 8, 0.0025)
    node.loop.destroy()


def test_durations_may_be_timedeltas_and_are_kept_in_seconds() -> None:
    second = timedelta(seconds=1)
    names = ("timeout", "hold_timeout", "max_tick", "stall_timeout", "health_period", "remember_for")
    fields: dict[str, Any] = dict.fromkeys((*names, "drain_timeout", "flush_timeout"), second)
    config = NodeConfig(**fields)
    assert [getattr(config, name) for name in fields] == [1.0] * 8


def test_without_them_a_loop_has_its_own_defaults_and_a_watchdog() -> None:
    node = Node([Memory])
    seen = node.loop.config
    assert (seen.stall_timeout, seen.max_msgs_per_actor, seen.max_tick) == (1.0, 64, 0.005)
    node.loop.destroy()


@pytest.mark.parametrize("where", ["flag", "variable", "file"])
def test_a_flag_a_variable_and_a_file_set_them(where: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "stall_timeout": 0.25,
        "max_msgs_per_actor": 8,
        "max_tick": 0.0025,
        "max_unsent_bytes": 1 << 20,
    }
    flags = {f"node.{name}": value for name, value in given.items()} if where == "flag" else {}
    variables = {f"BANDSTAND_NODE_{name.upper()}": str(value) for name, value in given.items()}
    file = tmp_path / "shop.toml"
    lines = [f"{name} = {value}" for name, value in given.items()] if where == "file" else []
    file.write_text("\n".join(["[node]", *lines]), encoding="utf-8")
    settings = read_settings(flags, str(file), variables if where == "variable" else {})
    config = settings.node_config()
    assert {name: getattr(config, name) for name in given} == given


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stall_timeout", -1),
        ("stall_timeout", 86_401),
        ("stall_timeout", "5"),
        ("stall_timeout", True),
        ("max_tick", 0),
        ("max_tick", float("nan")),
        ("max_tick", 60.001),
        ("timeout", 0),
        ("timeout", True),
        ("hold_timeout", -1),
        ("health_period", timedelta(seconds=-1)),
        ("remember_for", 0),
        ("drain_timeout", "5"),
        ("flush_timeout", timedelta(days=2)),
        ("max_msgs_per_actor", 0),
        ("max_msgs_per_actor", 2.5),
        ("max_unsent_bytes", 65_535),
    ],
)
def test_what_can_never_work_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=f"NodeConfig: {field} is"):
        NodeConfig(**{field: value})
