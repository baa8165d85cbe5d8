"""The settings of a node that are its loop's: they can be given wherever the others can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bandstand.bus import Memory, Node, NodeConfig
from bandstand.cli.settings import read_settings
from bandstand.errors import InvalidArgument

pytestmark = [pytest.mark.guarantee("G302"), pytest.mark.once]


def test_a_node_sets_up_its_loop_by_them() -> None:
    config = NodeConfig(stall_ms=250, max_msgs_per_actor=8, max_tick_ms=2.5)
    node = Node([Memory], config=config)
    seen = node.loop.config
    assert (seen.stall_ms, seen.max_msgs_per_actor, seen.max_tick_ms) == (250, 8, 2.5)
    node.loop.destroy()


def test_without_them_a_loop_has_its_own_defaults() -> None:
    node = Node([Memory])
    seen = node.loop.config
    assert (seen.stall_ms, seen.max_msgs_per_actor, seen.max_tick_ms) == (None, 64, 5.0)
    node.loop.destroy()


@pytest.mark.parametrize("where", ["flag", "variable", "file"])
def test_a_flag_a_variable_and_a_file_set_them(where: str, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "stall_ms": 250.0,
        "max_msgs_per_actor": 8,
        "max_tick_ms": 2.5,
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
        ("stall_ms", -1),
        ("stall_ms", 86_400_001),
        ("stall_ms", "5"),
        ("stall_ms", True),
        ("max_tick_ms", 0),
        ("max_tick_ms", float("nan")),
        ("max_tick_ms", 60_001),
        ("max_msgs_per_actor", 0),
        ("max_msgs_per_actor", 2.5),
        ("max_unsent_bytes", 65_535),
    ],
)
def test_what_can_never_work_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgument, match=f"NodeConfig: {field} is"):
        NodeConfig(**{field: value})
