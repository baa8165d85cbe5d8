"""A capability is declared in one of two forms, and read into one spec; mistakes are found before the node starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bandstand.bus.contracts.capability import (
    Capability,
    CapabilitySpec,
    Contract,
    provide,
    read_capability,
)
from bandstand.bus.memory import Memory as RealMemory
from bandstand.bus.syscall import HealthTick
from bandstand.errors import ContractError
from tests.bus import declared as d
from tests.bus import envelopes as e
from tests.bus.capabilities import Do
from tests.bus.models import Order


def read(source: Any, *, is_builtin: bool = False) -> CapabilitySpec:
    return read_capability(source, is_builtin=is_builtin)


def contract(**given: Any) -> Contract:
    defaults: dict[str, Any] = {
        "id": "Memory",
        "description": "Keeps values.",
        "inbound": e.Set | e.Get,
        "spawn": lambda: None,
    }
    return Contract(**defaults | given)


@pytest.mark.spec("C12", "C15")
class TestClasses:
    def test_annotated_methods_are_the_handlers(self) -> None:
        spec = read(d.Memory)
        assert spec.id == "Memory"
        assert spec.description == "Keeps values by key."
        assert {key: entry.method for key, entry in spec.handlers.items()} == {
            ("command", "Memory.Set"): "set",
            ("query", "Memory.Get"): "get",
            ("command", "Memory.Clear"): "clear",
            ("event", "Memory.Changed"): "on_changed",
        }
        assert spec.handles == ("command:Memory.Set", "query:Memory.Get", "command:Memory.Clear")
        assert spec.subscribes == ("Memory.Changed",)
        assert spec.is_class
        assert type(spec.make()) is d.Memory

    def test_what_it_may_say_is_its_outbound_and_its_replies(self) -> None:
        assert {key: codec.annotation for key, codec in read(d.Memory).outbound.items()} == {
            ("event", "Memory.Changed"): e.Changed,
            ("error", "Memory.NotFound"): e.NotFound,
            ("reply", "Memory.Set"): None,
            ("reply", "Memory.Get"): e.Value,
            ("reply", "Memory.Clear"): int,
        }

    def test_the_description_is_the_messages_or_else_the_handlers(self) -> None:
        handlers = read(d.Memory).handlers
        assert handlers["command", "Memory.Set"].description == "Keep a value."
        assert handlers["command", "Memory.Clear"].description == "Forget everything."

    def test_options_and_handlers_are_inherited(self) -> None:
        spec = read(d.Kept)
        assert spec.id == "Kept.Memory"
        assert spec.description == "Keeps values by key."
        assert (spec.restarts.max_restarts, spec.mailbox, spec.timeout) == (1, 7, 0.05)
        assert spec.handles == read(d.Memory).handles

    def test_envelope_classes_have_a_builder(self) -> None:
        spec = read(d.Whole)
        assert spec.handles == (
            "command:Memory.Set",
            "command:Memory.SetDict",
            "command:Shop.Place",
            "command:Shop.Replace",
        )
        entry = spec.handlers["command", "Shop.Replace"]
        assert entry.envelope is not None
        assert (entry.codec.annotation, entry.method) == (Order, "place")
        assert entry.reply_codec is not None
        assert entry.reply_codec.annotation is Order

    def test_one_handler_can_have_several_messages_each_with_its_reply(self) -> None:
        outbound = read(d.Both).outbound
        assert outbound["reply", "Memory.Get"].annotation is e.Value
        assert outbound["reply", "Memory.Names"].annotation == list[str]
        assert outbound["reply", "Memory.Clear"].annotation is Any
        assert outbound["reply", "Memory.Set"].annotation is None

    def test_a_handler_may_return_more_or_say_nothing(self) -> None:
        assert read(d.Narrower).outbound["reply", "Memory.Get"].annotation is e.Value
        assert read(d.Annotated).outbound["reply", "Memory.Get"].annotation is e.Value
        assert read(d.Annotated).outbound["reply", "Memory.Clear"].annotation is None

    def test_a_constructor_with_arguments_needs_them_provided(self) -> None:
        with pytest.raises(
            ContractError, match=r"NeedsArguments: its constructor takes arguments .*pass provide\("
        ):
            read(d.NeedsArguments)
        assert read(provide(d.NeedsArguments, "hello")).make().greeting == "hello"

    def test_the_reference_capability_is_read(self) -> None:
        assert {"command:Memory.Set", "query:Memory.Get"} <= set(read(RealMemory).handles)


@pytest.mark.spec("C12", "C15")
class TestContracts:
    def test_it_means_the_same_as_a_class(self) -> None:
        written = read(contract(inbound=e.Set | e.Get | e.Changed, outbound=e.Changed | e.NotFound))
        assert written.handles == ("command:Memory.Set", "query:Memory.Get")
        assert written.subscribes == ("Memory.Changed",)
        assert {key: codec.annotation for key, codec in written.outbound.items()} == {
            ("event", "Memory.Changed"): e.Changed,
            ("error", "Memory.NotFound"): e.NotFound,
            ("reply", "Memory.Set"): None,
            ("reply", "Memory.Get"): e.Value,
        }
        assert not written.is_class
        assert all(entry.method is None for entry in written.handlers.values())

    def test_a_reply_is_what_outbound_says(self) -> None:
        written = read(contract(inbound=e.SetMessage | e.ReadMessage, outbound=e.SetReply))
        replies = {
            name: entry.reply_codec.annotation
            for (_, name), entry in written.handlers.items()
            if entry.reply_codec
        }
        assert replies == {"Memory.Set": e.Value, "Memory.Get": None, "Memory.List": None}
        assert set(written.outbound) == {("reply", name) for name in replies}

    def test_it_can_subscribe_without_a_type(self) -> None:
        written = read(contract(subscribes=["Shop.OrderPlaced", "Sys.HealthTick", "Shop.OrderPlaced"]))
        assert written.subscribes == ("Shop.OrderPlaced", "Sys.HealthTick")
        assert written.handlers["event", "Shop.OrderPlaced"].codec.read(b'[1, {"a": 2}]') == [1, {"a": 2}]

    def test_a_subscription_with_a_type_is_not_undone_by_one_without(self) -> None:
        written = read(contract(inbound=e.Changed, subscribes=["Memory.Changed"]))
        assert written.handlers["event", "Memory.Changed"].codec.annotation is e.Changed


@pytest.mark.spec("C15")
class TestRefusals:
    @pytest.mark.parametrize(
        ("source", "sentence"),
        [
            (d.MaybeReply, r"get\(\): returns .*Value \| None, but Get declares the reply Value"),
            (d.NoReply, r"get\(\): returns None(Type)?, but Get declares the reply Value"),
            (d.SayingTimer, r"outbound has event Timer\.Fired"),
            (3, "3 is not a capability"),
        ],
    )
    def test_what_cannot_be_served_is_refused_with_a_sentence(self, source: Any, sentence: str) -> None:
        """The others are in `texts/contract_errors.txt`."""
        with pytest.raises(ContractError, match=sentence):
            read(source)

    @pytest.mark.parametrize("annotation", ["msgspec.Nope", "1 +", "Do[int, str]", "Nope"])
    def test_an_annotation_that_cannot_be_resolved_is_refused(self, annotation: str) -> None:
        class Odd(Capability):
            """Odd."""

            def do(self, msg: Do) -> None:
                pass

        Odd.do.__annotations__["msg"] = annotation
        with pytest.raises(ContractError, match="cannot be resolved"):
            read(Odd)

    def test_the_runtimes_own_may_use_the_runtimes_names(self) -> None:
        assert read(d.Clock, is_builtin=True).handles == ("command:Timer.Nap",)
        assert set(read(d.Saying, is_builtin=True).outbound) == {("event", "Sys.Trouble")}
        with pytest.raises(ContractError, match=r"Sys\.Panic cannot be handled"):
            read(d.Kernel, is_builtin=True)

    def test_everybody_may_listen_to_the_runtime_and_ask_the_built_in(self) -> None:
        spec = read(d.Whole)
        assert spec.handlers["event", "Sys.HealthTick"].codec.annotation is HealthTick
        assert ("command", "Timer.Schedule") in spec.outbound


@pytest.mark.guarantee("G458")
class TestMisspeltOptions:
    @pytest.mark.parametrize(
        ("misspelt", "option"),
        [
            ("concurency", "concurrency"),
            ("mail_box", "mailbox"),
            ("time_out", "timeout"),
            ("ontimeout", "on_timeout"),
            ("restart", "restarts"),
            ("refuse", "refuses"),
            ("outbounds", "outbound"),
        ],
    )
    def test_a_misspelt_option_is_an_error_that_names_the_option(self, misspelt: str, option: str) -> None:
        base = type("Base", (d.Memory,), {misspelt: 4})
        for source in (base, type("Derived", (base,), {"id": "Memory"})):
            with pytest.raises(
                ContractError, match=rf"{misspelt} is not an option \(did you mean {option}\?\)"
            ):
                read(source)

    def test_the_class_may_have_attributes_of_its_own(self) -> None:
        class Own(d.Memory):
            _concurency = 4
            concurency: int = 4
            max_timeout = 4

            @property
            def time_out(self) -> int:
                return self.concurency

            def restart(self) -> None:
                pass

        assert read(Own).concurrency == 1


@pytest.mark.spec("C22")
@pytest.mark.parametrize("source", [d.Memory, d.Whole, RealMemory])
def test_every_entry_has_an_example_that_it_reads(source: type) -> None:
    for entry in read(source).handlers.values():
        entry.codec.read(json.dumps(entry.codec.example).encode())
