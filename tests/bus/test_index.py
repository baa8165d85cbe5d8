"""Who handles what is known at boot, and is a function of kind and type alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bandstand.bus.contracts.capability import (
    CapabilitySpec,
    HandlerIndex,
    HandlerSpec,
    RestartLimits,
    read_capability,
)
from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.bus.frame import KINDS, Kind
from bandstand.errors import ContractError
from tests.bus import declared as d

ANY: PayloadCodec = PayloadCodec(Any, "anything")
INDEX = HandlerIndex.build([read_capability(d.Memory)])


def spec(name: str, *keys: tuple[Kind, str]) -> CapabilitySpec:
    return CapabilitySpec(
        id=name,
        description=f"Called {name}.",
        handlers={
            (kind, type_name): HandlerSpec(kind=kind, type=type_name, codec=ANY) for kind, type_name in keys
        },
        outbound={},
        subscribes=(),
        make=object,
        is_class=True,
        restarts=RestartLimits(),
        mailbox=None,
        timeout=None,
    )


TYPES = st.sampled_from(["A.One", "A.Two", "B.One", "B.Two", "C.One"])
KEYS = st.lists(st.tuples(st.sampled_from(["command", "query", "event"]), TYPES), unique=True)
HOUSES = st.lists(KEYS, min_size=1, max_size=5)


@pytest.mark.spec("C16")
class TestBuilding:
    @pytest.mark.spec("C15")
    def test_commands_and_queries_have_a_handler_and_events_subscribers(self) -> None:
        memory = read_capability(d.Memory)
        audit = spec("Audit", ("event", "Memory.Changed"))
        index = HandlerIndex.build([memory, audit])
        assert {key: owner for key, (owner, _) in index.handlers.items()} == {
            ("command", "Memory.Set"): "Memory",
            ("query", "Memory.Get"): "Memory",
            ("command", "Memory.Clear"): "Memory",
        }
        assert {name: [owner for owner, _ in found] for name, found in index.subscriptions.items()} == {
            "Memory.Changed": ["Memory", "Audit"]
        }
        assert index.handlers["query", "Memory.Get"][1] is memory.handlers["query", "Memory.Get"]


@pytest.mark.spec("C9")
class TestDestinations:
    @pytest.mark.slow
    @given(HOUSES)
    def test_kind_and_type_decide_the_owner(self, houses: Sequence[Sequence[tuple[Kind, str]]]) -> None:
        specs = [spec(f"C{place}", *keys) for place, keys in enumerate(houses)]
        owners: dict[tuple[Kind, str], list[str]] = {}
        for each in specs:
            for key in each.handlers:
                owners.setdefault(key, []).append(each.id)
        is_ambiguous = any(len(found) > 1 for (kind, _), found in owners.items() if kind != "event")
        if is_ambiguous:
            with pytest.raises(ContractError, match="leave exactly one handler"):
                HandlerIndex.build(specs)
            return
        index = HandlerIndex.build(specs)
        again = HandlerIndex.build(specs)
        for key, found in owners.items():
            if key[0] == "event":
                assert [owner for owner, _ in index.subscriptions[key[1]]] == found
            else:
                assert [index.handlers[key][0]] == found
        assert index.handlers == again.handlers
        assert index.subscriptions == again.subscriptions
        assert len(index.handlers) + len(index.subscriptions) == len(owners)


@pytest.mark.spec("C10")
class TestNearMisses:
    @pytest.mark.parametrize(
        ("kind", "type_name", "best"),
        [
            ("query", "Memory.Gte", "query:Memory.Get"),
            ("command", "Memory.Get", "query:Memory.Get"),
            ("query", "memory.get", "query:Memory.Get"),
            ("command", "MEMORY.SET", "command:Memory.Set"),
            ("query", "Memory.Set", "command:Memory.Set"),
            ("command", "Memory.Cleer", "command:Memory.Clear"),
        ],
    )
    def test_the_nearest_is_found(self, kind: Kind, type_name: str, best: str) -> None:
        assert INDEX.nearest(kind, type_name)[0] == best

    def test_what_is_far_has_none(self) -> None:
        assert INDEX.nearest("command", "Weather.Forecast.Tomorrow") == ()

    @given(st.sampled_from(KINDS), st.text(max_size=200))
    def test_there_are_at_most_three_suggestions(self, kind: Kind, name: str) -> None:
        found = INDEX.nearest(kind, name)
        assert len(found) <= 3
        assert len(set(found)) == len(found)
        assert set(found) <= {f"{each}:{type_name}" for each, type_name in INDEX.handlers}
