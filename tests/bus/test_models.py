"""pydantic models are payloads like any other: checked, described, and written as JSON."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from pydantic import ValidationError

from bandstand.bus.contracts.codec import PayloadCodec
from bandstand.errors import ContractViolationError, InvalidMessageError
from tests.bus.generating import check, check_schema, payloads_of
from tests.bus.models import MODELS, Box, Cart, Even, Item, Order, Rude, Size


def of(kind: Any) -> PayloadCodec:
    return PayloadCodec(kind, "command Shop.Place")


@pytest.mark.spec("C22")
class TestSchema:
    @pytest.mark.slow
    @pytest.mark.parametrize("name", MODELS)
    def test_what_is_made_from_the_schema_alone_is_read_and_written(self, name: str) -> None:
        payload = of(MODELS[name])

        @settings(max_examples=12)
        @given(payloads_of(payload))
        def holds(value: Any) -> None:
            payload.write(payload.read(json.dumps(value).encode()))

        holds()

    @pytest.mark.parametrize("name", MODELS)
    def test_it_is_a_schema_with_all_that_it_refers_to(self, name: str) -> None:
        payload = of(MODELS[name])
        check_schema(payload.schema)
        check(payload.schema, payload.example)
        payload.read(json.dumps(payload.example).encode())

    def test_an_alias_is_the_name_and_an_example_the_example(self) -> None:
        payload = of(Order)
        assert payload.schema["required"] == ["orderNumber", "items"]
        assert payload.example["orderNumber"] == 17


class TestReading:
    def test_a_model_is_made_at_any_depth(self) -> None:
        cart = of(Cart).read(b'{"owner": "o", "orders": [{"orderNumber": 1, "items": [{"name": "n"}]}]}')
        assert cart == Cart("o", [Order(orderNumber=1, items=[Item(name="n")])])

    @pytest.mark.spec("C10")
    @pytest.mark.parametrize(
        ("kind", "data", "path", "problem"),
        [
            (Item, b'{"name": ""}', "$.data.name", "at least 1 character"),
            (Cart, b'{"owner": 1, "orders": []}', "$.data.owner", "Expected `str`, got `int`"),
            (
                Cart,
                b'{"owner": "o", "orders": [{"orderNumber": 1, "items": [{"name": "n", "price": 0}]}]}',
                "$.data.orders[0].items[0].price",
                "greater than 0",
            ),
            (Order, b'{"orderNumber": 0, "items": [{}]}', "$.data.orderNumber", "(and 1 more)"),
            (Even, b'{"number": 3}', "$.data.number", "must be even"),
            (Rude, b'{"number": 3}', "$.data", "its validation raised KeyError: 3"),
            (Box[int], b"[]", "$.data", "object"),
        ],
    )
    def test_what_is_wrong_is_said_and_where(self, kind: Any, data: bytes, path: str, problem: str) -> None:
        with pytest.raises(InvalidMessageError) as caught:
            of(kind).read(data)
        assert caught.value.path == path
        assert problem in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.spec("C14")
class TestWriting:
    def test_a_model_is_written_under_the_names_of_the_wire(self) -> None:
        order = Order(orderNumber=1, items=[Item(name="n", size=Size.LARGE)])
        written = msgspec.json.decode(of(Order).write(order))
        assert written == {
            "orderNumber": 1,
            "items": [{"name": "n", "price": 1.0, "size": "l"}],
            "note": None,
            "by_name": {},
        }

    def test_a_model_that_was_changed_for_the_worse_is_not_written(self) -> None:
        item = Item(name="n")
        item.price = -1
        with pytest.raises(ContractViolationError, match=r"greater than 0, at \$\.data\.price"):
            of(Item).write(item)

    def test_what_json_has_no_number_for_is_not_written(self) -> None:
        with pytest.raises(ContractViolationError, match=r"not a finite number, at \$\.data\.content"):
            of(Box[float | None]).write(Box[float | None](content=math.nan))


@pytest.mark.slow
def test_pydantic_is_never_imported_by_the_bus() -> None:
    script = "import bandstand.bus.contracts.capability, sys; print('pydantic' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"


def test_the_models_own_error_is_kept_as_the_cause() -> None:
    with pytest.raises(ContractViolationError) as caught:
        of(Even).write(Even.model_construct(number=3))
    assert caught.value.__cause__ is not None
    chain = caught.value.__cause__.__cause__
    assert chain is not None
    assert isinstance(chain.__cause__, ValidationError)
