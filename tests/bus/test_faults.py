"""Faults: the runtime's own errors, as every client sees them."""

from __future__ import annotations

import msgspec
import pytest

from bandstand.bus import faults
from bandstand.bus.faults import FAULTS, RETRYABLE, Fault, FaultMaker
from bandstand.bus.frame import Frame, Metadata
from bandstand.bus.wire import read_frame, write_frame

pytestmark = [pytest.mark.spec("C19")]

REQUEST = Frame(kind="command", type="Memory.Set", metadata=Metadata("c1", 1, None, "flow-7"))


def maker() -> FaultMaker:
    return FaultMaker(iter(("e1", "e2")).__next__, lambda: 1234)


def plain(frame: Frame) -> dict[str, object]:
    return msgspec.json.decode(frame.data, type=dict[str, object])


class TestAnAnswer:
    @pytest.mark.spec("C11")
    def test_follows_from_its_request_and_stays_with_its_group(self) -> None:
        made = maker().make(faults.TIMEOUT, "too slow", request=REQUEST)
        assert (made.kind, made.type) == ("error", "Sys.Timeout")
        assert made.metadata == Metadata("e1", 1234, "c1", "flow-7")

    @pytest.mark.spec("C8")
    def test_names_the_request_in_its_data_as_the_specification_prints_it(self) -> None:
        made = maker().make(faults.TIMEOUT, "Request timed out", request=REQUEST)
        assert plain(made) == {"message": "Request timed out", "originalId": "c1"}

    def test_of_a_request_of_which_only_the_id_could_be_read(self) -> None:
        made = maker().make(faults.SCHEMA_ERROR, "no", request_id="c9", path="$.kind")
        assert made.metadata == Metadata("e1", 1234, "c9")
        assert plain(made) == {"message": "no", "originalId": "c9", "path": "$.kind"}

    def test_to_nobody_has_no_causation(self) -> None:
        made = maker().make(faults.ACTOR_CRASH, "it fell", capability="Memory")
        assert made.metadata == Metadata("e1", 1234)
        assert plain(made) == {"message": "it fell", "capabilityId": "Memory"}

    def test_can_be_written_and_read(self) -> None:
        made = maker().make(faults.OVERLOADED, "full — später", request=REQUEST, capability="Memory")
        assert read_frame(write_frame(made)) == made
        assert msgspec.json.decode(made.data, type=Fault) == Fault(
            "full — später", "c1", retryable=True, capability_id="Memory"
        )


class TestTheList:
    def test_has_every_fault_that_can_be_an_answer(self) -> None:
        """`Sys.BootFailed` is none: there is nobody yet who could have asked."""
        named = {value for name, value in vars(faults).items() if name.isupper() and isinstance(value, str)}
        assert named - {faults.BOOT_FAILED} == set(FAULTS)

    @pytest.mark.parametrize("name", FAULTS)
    def test_explains_each_in_sentences(self, name: str) -> None:
        assert name.startswith("Sys.")
        assert FAULTS[name].endswith(".")

    @pytest.mark.parametrize("name", sorted(FAULTS))
    def test_what_may_be_tried_again_is_marked_and_nothing_was_done(self, name: str) -> None:
        made = maker().make(name, "x", request=REQUEST)
        assert plain(made).get("retryable", False) is (name in RETRYABLE)
        assert ("Nothing was done" in FAULTS[name]) is (name in RETRYABLE)
