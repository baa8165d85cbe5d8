"""Memory, the reference capability."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bandstand.bus import provide
from bandstand.bus.memory import Delete, Get, List, Memory, Set
from bandstand.errors import RequestFailedError
from tests.bus.virtual_node import Stage, staged

pytestmark = pytest.mark.spec("C12")

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.text(st.characters(codec="utf-8")),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


class TestValues:
    @pytest.mark.slow
    @given(
        values=st.dictionaries(
            st.text(st.characters(codec="utf-8"), min_size=1, max_size=5), JSON, max_size=8
        )
    )
    @settings(max_examples=15)
    @staged(Memory)
    async def test_what_was_set_is_what_is_got(self, stage: Stage, values: dict[str, Any]) -> None:
        for key, value in values.items():
            await stage.bus.ask(Set(key, value))
        for key, value in values.items():
            got = await stage.bus.ask(Get(key))
            assert (got.value, got.found) == (value, True)
        assert (await stage.bus.ask(List())).keys == sorted(values)
        for key in values:
            assert (await stage.bus.ask(Delete(key))).deleted
            assert not (await stage.bus.ask(Get(key))).found

    @staged(Memory)
    async def test_a_change_is_told(self, stage: Stage) -> None:
        stage.command("Syscall.Subscribe", {"types": ["Memory.Changed"]})
        stage.command("Memory.Set", {"key": "a", "value": [1]})
        stage.command("Memory.Delete", {"key": "a"})
        stage.command("Memory.Delete", {"key": "a"})
        await stage.settle()
        assert stage.events() == [{"key": "a", "value": [1]}, {"key": "a", "deleted": True}]

    @pytest.mark.parametrize("key", ["", "x" * 1001])
    @staged(Memory)
    async def test_a_key_that_is_none_is_refused(self, stage: Stage, key: str) -> None:
        assert (
            await stage.fault_of("Sys.SchemaError", "command", "Memory.Set", {"key": key, "value": 1})
        ).path == "$.data.key"

    @staged(provide(Memory, max_keys=2))
    async def test_there_is_an_end_to_it(self, stage: Stage) -> None:
        await stage.bus.ask(Set("a", 1))
        await stage.bus.ask(Set("b", 1))
        with pytest.raises(RequestFailedError, match="the store has 2 keys"):
            await stage.bus.ask(Set("c", 1))
        await stage.bus.ask(Set("b", 2))
        await stage.bus.ask(Delete("a"))
        await stage.bus.ask(Set("c", 1))


@given(
    keys=st.sets(st.text("abc", min_size=1, max_size=4), max_size=20),
    prefix=st.text("abc", max_size=2),
    limit=st.integers(1, 5),
)
@settings(max_examples=15)
@staged(Memory)
async def test_a_list_can_be_gone_through_in_parts(
    stage: Stage, keys: set[str], prefix: str, limit: int
) -> None:
    for key in keys:
        await stage.bus.ask(Set(key, 1))
    found: list[str] = []
    after, more = "", True
    while more:
        part = await stage.bus.ask(List(prefix=prefix, after=after, limit=limit))
        assert len(part.keys) <= limit
        found += part.keys
        more = part.more
        after = found[-1] if found else ""
    assert found == sorted(key for key in keys if key.startswith(prefix))
