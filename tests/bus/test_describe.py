"""A node describes itself so that a program needs no other manual."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.contracts.capability import HandlerIndex, Provision, read_capability
from bandstand.bus.contracts.describe import describe
from bandstand.bus.faults import FAULTS, Fault
from bandstand.bus.frame import Frame
from bandstand.bus.memory import Memory
from bandstand.bus.scheduler import TimerCapability
from bandstand.bus.syscall import Syscall
from bandstand.bus.wire import read_frame
from tests.bus import declared as d
from tests.bus.generating import check, check_schema, from_schema


# Any: plain values, as a client gets them.
def told(**given: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(describe(BLUEPRINTS, **given)))


def handled(description: Any) -> dict[str, Any]:
    return {
        each["type"]: each for capability in description["capabilities"] for each in capability["handles"]
    }


BLUEPRINTS = [
    read_capability(Memory),
    # None of them is made here.
    read_capability(Provision(Syscall, Memory), is_builtin=True),
    read_capability(Provision(TimerCapability, Memory), is_builtin=True),
]
ALL = told()


@pytest.mark.spec("C22")
class TestContent:
    def test_every_capability_is_there_with_all_it_handles(self) -> None:
        assert [each["id"] for each in ALL["capabilities"]] == [each.id for each in BLUEPRINTS]
        assert set(handled(ALL)) == {name for _, name in HandlerIndex.build(BLUEPRINTS).handlers}
        for each in handled(ALL).values():
            assert each["description"]

    def test_what_it_says_and_listens_to_is_there(self) -> None:
        (memory,) = told(capability="Memory")["capabilities"]
        assert [each["type"] for each in memory["emits"]] == ["Memory.Changed"]
        assert memory["emits"][0]["kind"] == "event"
        assert memory["emits"][0]["schema"]["properties"]
        whole = describe([read_capability(d.Whole)]).capabilities[0]
        assert [each.type for each in whole.subscribes] == ["Sys.HealthTick"]

    def test_every_fault_is_explained(self) -> None:
        assert {each["type"]: each["description"] for each in ALL["faults"]} == FAULTS
        check(ALL["fault"], msgspec.to_builtins(Fault("m", "id")))


@pytest.mark.spec("C22")
class TestUse:
    def test_examples_have_the_id_and_time_that_they_are_given(self) -> None:
        (one,) = (
            describe(BLUEPRINTS, type="Memory.Set", new_id=lambda: "x", now_ms=lambda: 7)
            .capabilities[0]
            .handles
        )
        assert one.example is not None
        assert one.example.metadata is not None
        assert (one.example.metadata.id, one.example.metadata.timestamp) == ("x", 7)

    @pytest.mark.slow
    @given(from_schema(ALL["envelope"]))
    def test_a_message_from_the_schema_of_the_envelope_alone_is_read(self, value: Any) -> None:
        assert isinstance(read_frame(json.dumps(value).encode()), Frame)

    @pytest.mark.slow
    @given(st.sampled_from(sorted(handled(ALL))))
    def test_every_schema_is_one(self, name: str) -> None:
        for word in ("schema", "reply"):
            check_schema(handled(ALL)[name][word])
