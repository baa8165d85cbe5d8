"""A loop's limits are checked before anything starts."""

from __future__ import annotations

import dataclasses
import math
from datetime import timedelta
from typing import Any

import pytest

from bandstand.core import Loop, LoopConfig
from bandstand.errors import InvalidArgumentError


@pytest.mark.spec("J1", "J5", "J8", "J10")
def test_the_defaults_are_the_specifications() -> None:
    config = LoopConfig()
    assert dataclasses.asdict(config) == {
        "max_actors": 65_536,
        "default_mailbox_cap": 1024,
        "sys_reserved": 4,
        "max_msgs_per_actor": 64,
        "max_actors_per_tick": 1024,
        "max_tick": 0.005,
        "stop_timeout": 5.0,
        "stall_timeout": None,
        "fd_sweep_period": 1.0,
        "loop_factory": None,
    }


@pytest.mark.spec("J1")
@pytest.mark.parametrize(
    "field",
    ["max_actors", "default_mailbox_cap", "sys_reserved", "max_msgs_per_actor", "max_actors_per_tick"],
)
@pytest.mark.parametrize("value", [0, -1, 2.5, "7", None, True, 1 << 63, 1 << 64], ids=repr)
def test_a_limit_that_can_never_work_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        LoopConfig(**{field: value})


@pytest.mark.spec("J1")
@pytest.mark.parametrize("field", ["max_tick", "stop_timeout", "stall_timeout", "fd_sweep_period"])
@pytest.mark.parametrize(
    "value",
    [
        0,
        -1,
        True,
        math.nan,
        math.inf,
        "5",
        2_000_000,
        timedelta(0),
        timedelta(seconds=-1),
        timedelta(days=30),
    ],
    ids=repr,
)
def test_a_time_that_can_never_work_is_refused(field: str, value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=field):
        LoopConfig(**{field: value})


@pytest.mark.parametrize("field", ["max_tick", "stop_timeout", "stall_timeout", "fd_sweep_period"])
@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2)], ids=repr)
def test_a_time_is_kept_in_seconds(field: str, value: Any) -> None:
    kept = getattr(LoopConfig(**{field: value}), field)
    assert (type(kept), kept) == (float, 2.0)


@pytest.mark.spec("J1", "J5")
@pytest.mark.parametrize(("cap", "reserve"), [(4, 4), (3, 4), (10, 11), (1, 1)])
def test_a_cap_not_above_the_reserve_names_both(cap: int, reserve: int) -> None:
    with pytest.raises(
        InvalidArgumentError, match=rf"default_mailbox_cap is {cap} and sys_reserved is {reserve}"
    ):
        LoopConfig(default_mailbox_cap=cap, sys_reserved=reserve)


@pytest.mark.parametrize("value", [0, "asyncio", object()], ids=repr)
def test_a_factory_that_cannot_be_called_is_refused(value: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="loop_factory"):
        LoopConfig(loop_factory=value)


def test_a_config_is_frozen_and_takes_keywords_only() -> None:
    config = LoopConfig(max_actors=5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.max_actors = 6  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]  # on purpose
    with pytest.raises(TypeError):
        LoopConfig(5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]  # on purpose


@pytest.mark.parametrize("config", [{}, {"max_actors": 5}, 5, "default", LoopConfig], ids=repr)
def test_what_is_no_config_is_an_invalid_argument(config: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="config"):
        Loop(config)


@pytest.mark.parametrize("name", [5, b"name", object()], ids=repr)
def test_a_name_is_a_string(name: Any) -> None:
    with Loop() as loop, pytest.raises(InvalidArgumentError, match="name"):
        loop.spawn(lambda ctx, data: None, name=name)
