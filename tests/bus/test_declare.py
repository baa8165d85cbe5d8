"""What a capability declares, in either form, is read into one blueprint; all that is wrong is found before anything starts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bandstand.bus.contracts import declare
from bandstand.bus.contracts.blueprint import Blueprint
from bandstand.bus.contracts.capability import provide
from bandstand.bus.contracts.contract import Contract, RestartLimits
from bandstand.bus.memory import Memory as RealMemory
from bandstand.bus.syscall import HealthTick
from bandstand.errors import BadContract
from tests.bus import declared as d
from tests.bus import envelopes as e
from tests.bus.models import Order


def read(source: Any, *, is_builtin: bool = False) -> Blueprint:
    return declare.blueprint_of(source, is_builtin=is_builtin)


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
        blueprint = read(d.Memory)
        assert blueprint.id == "Memory"
        assert blueprint.description == "Keeps values by key."
        assert {key: entry.method for key, entry in blueprint.entries.items()} == {
            ("command", "Memory.Set"): "set",
            ("query", "Memory.Get"): "get",
            ("command", "Memory.Clear"): "clear",
            ("event", "Memory.Changed"): "on_changed",
        }
        assert blueprint.handles == ("command:Memory.Set", "query:Memory.Get", "command:Memory.Clear")
        assert blueprint.subscribes == ("Memory.Changed",)
        assert blueprint.is_class
        assert type(blueprint.make()) is d.Memory

    def test_the_return_annotation_is_the_reply(self) -> None:
        entries = read(d.Memory).entries
        replies = {name: entry.reply.kind if entry.reply else "none" for (_, name), entry in entries.items()}
        assert replies == {
            "Memory.Set": None,
            "Memory.Get": e.Value,
            "Memory.Clear": int,
            "Memory.Changed": "none",
        }

    def test_what_it_may_say_is_its_outbound_and_its_replies(self) -> None:
        assert {key: payload.kind for key, payload in read(d.Memory).outbound.items()} == {
            ("event", "Memory.Changed"): e.Changed,
            ("error", "Memory.NotFound"): e.NotFound,
            ("reply", "Memory.Set"): None,
            ("reply", "Memory.Get"): e.Value,
            ("reply", "Memory.Clear"): int,
        }

    def test_the_description_is_the_messages_or_else_the_handlers(self) -> None:
        entries = read(d.Memory).entries
        assert entries["command", "Memory.Set"].description == "Keep a value."
        assert entries["command", "Memory.Clear"].description == "Forget everything."

    def test_options_and_handlers_are_inherited(self) -> None:
        blueprint = read(d.Kept)
        assert blueprint.id == "Kept.Memory"
        assert blueprint.description == "Keeps values by key."
        assert (blueprint.policy.max_restarts, blueprint.mailbox_cap, blueprint.timeout_ms) == (1, 7, 50)
        assert blueprint.handles == read(d.Memory).handles

    def test_whole_messages_have_a_shape(self) -> None:
        blueprint = read(d.Whole)
        assert blueprint.handles == (
            "command:Memory.Set",
            "command:Memory.SetDict",
            "command:Shop.Place",
            "command:Shop.Replace",
        )
        entry = blueprint.entries["command", "Shop.Replace"]
        assert entry.shape is not None
        assert (entry.payload.kind, entry.method) == (Order, "place")
        assert entry.reply is not None
        assert entry.reply.kind is Order

    def test_one_handler_can_have_several_messages_each_with_its_reply(self) -> None:
        outbound = read(d.Both).outbound
        assert outbound["reply", "Memory.Get"].kind is e.Value
        assert outbound["reply", "Memory.Names"].kind == list[str]
        assert outbound["reply", "Memory.Clear"].kind is Any
        assert outbound["reply", "Memory.Set"].kind is None

    def test_a_handler_may_return_more_or_say_nothing(self) -> None:
        assert read(d.Narrower).outbound["reply", "Memory.Get"].kind is e.Value
        assert read(d.Annotated).outbound["reply", "Memory.Get"].kind is e.Value
        assert read(d.Annotated).outbound["reply", "Memory.Clear"].kind is None

    def test_a_constructor_with_arguments_needs_them_provided(self) -> None:
        with pytest.raises(
            BadContract, match=r"NeedsArguments: its constructor takes arguments .*pass provide\("
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
        assert {key: payload.kind for key, payload in written.outbound.items()} == {
            ("event", "Memory.Changed"): e.Changed,
            ("error", "Memory.NotFound"): e.NotFound,
            ("reply", "Memory.Set"): None,
            ("reply", "Memory.Get"): e.Value,
        }
        assert not written.is_class
        assert all(entry.method is None for entry in written.entries.values())

    def test_a_reply_is_what_outbound_says(self) -> None:
        written = read(contract(inbound=e.SetMessage | e.ReadMessage, outbound=e.SetReply))
        replies = {name: entry.reply.kind for (_, name), entry in written.entries.items() if entry.reply}
        assert replies == {"Memory.Set": e.Value, "Memory.Get": None, "Memory.List": None}
        assert set(written.outbound) == {("reply", name) for name in replies}

    def test_it_can_subscribe_without_a_type(self) -> None:
        written = read(contract(subscribes=["Shop.OrderPlaced", "Sys.HealthTick", "Shop.OrderPlaced"]))
        assert written.subscribes == ("Shop.OrderPlaced", "Sys.HealthTick")
        assert written.entries["event", "Shop.OrderPlaced"].payload.read(b'[1, {"a": 2}]') == [1, {"a": 2}]

    def test_a_subscription_with_a_type_is_not_undone_by_one_without(self) -> None:
        written = read(contract(inbound=e.Changed, subscribes=["Memory.Changed"]))
        assert written.entries["event", "Memory.Changed"].payload.kind is e.Changed

    @pytest.mark.parametrize(
        ("given", "sentence"),
        [
            ({"id": ""}, "id is ''"),
            ({"id": 3}, "id is 3"),
            ({"description": " "}, "description is ' ': say in a sentence"),
            ({"inbound": int}, "inbound: int is no class of messages"),
            ({"inbound": e.OpenType}, "inbound: OpenType: the field 'type' is str, which is open"),
            ({"inbound": e.SetReply}, r"reply Memory\.Set cannot be taken"),
            ({"inbound": None}, "takes nothing and says nothing"),
            ({"inbound": d.Nap}, r"Timer\.Nap cannot be handled"),
            ({"outbound": int}, "outbound: int is no class of messages"),
            ({"outbound": d.Fault}, r"outbound has event Sys\.Trouble"),
            (
                {"inbound": e.Get, "outbound": e.SetReply},
                r"outbound has a reply to Memory\.Set, which inbound does not have",
            ),
            ({"outbound": e.SetReply}, r"another type for the reply to Memory\.Set than its class"),
            ({"subscribes": "Memory.Changed"}, r"subscribes is 'Memory\.Changed': pass a list"),
            ({"subscribes": ["Memory"]}, "subscribes has 'Memory'"),
            ({"subscribes": [3]}, "subscribes has 3"),
            ({"subscribes": 3}, "subscribes is 3"),
            ({"spawn": None}, "spawn is None: pass a function"),
            ({"policy": None}, "policy is None: pass a RestartLimits"),
            ({"mailbox_cap": True}, "mailbox_cap is True: pass an int from 1"),
            ({"timeout_ms": 0}, "timeout_ms is 0: pass an int from 1"),
        ],
    )
    def test_what_is_wrong_is_named(self, given: dict[str, Any], sentence: str) -> None:
        with pytest.raises(BadContract, match=sentence) as caught:
            read(contract(**given))
        assert str(caught.value).startswith(f"capability {given.get('id', 'Memory')}")


@pytest.mark.spec("C15")
class TestRefusals:
    @pytest.mark.parametrize(
        ("source", "sentence"),
        [
            (d.Undocumented, "Undocumented has no docstring"),
            (d.Twice, r"both one\(\) and two\(\) handle command Memory\.Set: exactly one may"),
            (d.WrongReply, r"get\(\): returns int, but Get says that the reply is Value: write -> Value"),
            (d.MaybeReply, r"get\(\): returns .*Value \| None, but Get says that the reply is Value"),
            (d.NoReply, r"get\(\): returns None(Type)?, but Get says that the reply is Value"),
            (
                d.AnsweringEvent,
                r"changed\(\): returns int, but nobody waits for an answer to event Memory\.Changed",
            ),
            (d.MessageReply, r"set\(\): returns the message SetReply: return the data"),
            (d.TwoParameters, r"get\(\): a handler takes one message.* leave out now"),
            (d.ByKeyword, r"get\(\): a handler takes one message.* leave out the \*"),
            (
                d.Unresolved,
                r"tagged\(\): an annotation cannot be resolved: name 'Tagged' is not defined\. Import",
            ),
            (d.Open, r"any\(\): OpenType: the field 'type' is str, which is open"),
            (d.BadPayload, r"the reply to Memory\.Clear: \$\.data: complex cannot be read"),
            (d.ReplyOutbound, r"outbound has a reply to Memory\.Set"),
            (d.Empty, "takes nothing and says nothing"),
            (d.Saying, r"outbound has event Sys\.Trouble"),
            (d.SayingTimer, r"outbound has event Timer\.Fired"),
            (d.Clock, r"outbound has event Timer\.Fired|Timer\.Nap cannot be handled"),
            (d.Kernel, r"Sys\.Panic cannot be handled"),
            (d.Answering, r"error Memory\.NotFound cannot be taken"),
            (d.BadId, "id is 'no words'"),
            (d.BadCap, "mailbox_cap is 0"),
            (d.BadTimeout, "timeout_ms is 1000000000000"),
            (d.BadPolicy, "policy is 3"),
            (int, "<class 'int'> is no capability"),
            (3, "3 is no capability"),
        ],
    )
    def test_what_cannot_be_served_is_refused_with_a_sentence(self, source: Any, sentence: str) -> None:
        with pytest.raises(BadContract, match=sentence):
            read(source)

    def test_the_runtimes_own_may_use_the_runtimes_names(self) -> None:
        assert read(d.Clock, is_builtin=True).handles == ("command:Timer.Nap",)
        assert set(read(d.Saying, is_builtin=True).outbound) == {("event", "Sys.Trouble")}
        with pytest.raises(BadContract, match=r"Sys\.Panic cannot be handled"):
            read(d.Kernel, is_builtin=True)

    def test_everybody_may_listen_to_the_runtime_and_ask_the_built_in(self) -> None:
        blueprint = read(d.Whole)
        assert blueprint.entries["event", "Sys.HealthTick"].payload.kind is HealthTick
        assert ("command", "Timer.Schedule") in blueprint.outbound


def test_a_blueprint_cannot_be_changed() -> None:
    blueprint = read(d.Memory)
    with pytest.raises(TypeError):
        blueprint.entries["command", "A.B"] = blueprint.entries["command", "Memory.Set"]  # type: ignore[index]  # pyright: ignore[reportIndexIssue]  # on purpose
    assert blueprint.policy == RestartLimits()


@pytest.mark.spec("C22")
@pytest.mark.parametrize("source", [d.Memory, d.Whole, RealMemory])
def test_every_entry_has_an_example_that_it_reads(source: type) -> None:
    for entry in read(source).entries.values():
        entry.payload.read(json.dumps(entry.payload.example).encode())
