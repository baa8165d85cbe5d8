"""The codec of links returns the same value of the same types."""

from __future__ import annotations

from collections import OrderedDict
from datetime import UTC, datetime
from decimal import Decimal
from enum import IntEnum
from math import prod
from struct import calcsize
from typing import Any, cast
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.msgpack import Ext, decode

from bandstand.errors import RemoteError
from bandstand.pod.link.codec import Packet, Unpacker, encode, is_plain, pack_error, pack_value, unpack_error
from bandstand.pod.link.large_buffers import LARGE, IncomingBuffers, Part

pytestmark = pytest.mark.spec("S19")


class Size(IntEnum):
    """Equal to numbers, and of another type."""

    SMALL = 1
    LARGE = 2


class Name(str):
    """Equal to strings, and of another type."""

    __slots__ = ()


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**63 - 2, max_value=2**64 + 2),
    st.floats(allow_nan=False),
    st.text(alphabet=st.characters(exclude_categories=())),
    st.binary(),
    st.sampled_from(
        [Size.SMALL, Name("x"), Decimal("1.50"), UUID(int=5), datetime(2020, 1, 1, tzinfo=UTC), 1 + 2j]
    ),
    st.sampled_from(["x" * 1024, "x" * 1025, b"y" * 1024, b"y" * 1025, "é" * 1024]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=20),
        st.lists(inner, max_size=20).map(tuple),
        st.dictionaries(st.text(max_size=3), inner, max_size=4),
        st.dictionaries(st.text(max_size=3), inner, max_size=4).map(OrderedDict),
        st.sets(st.integers(), max_size=4),
        st.sets(st.text(max_size=3), max_size=4).map(frozenset),
        st.binary().map(bytearray),
    ),
    max_leaves=20,
)


def view_of(data: Any) -> Any:
    return memoryview(data)


LARGE_ONES: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(
        [b"a" * (LARGE + 1), bytearray(b"b" * (LARGE + 1)), b"c" * (3 * LARGE), "d" * (2 * LARGE)]
    ),
    st.sampled_from([b"e" * (2 * LARGE), bytearray(b"f" * (2 * LARGE))]).map(view_of),
)


def travelled(value: object) -> Any:
    """Return a value as it arrives on the other side."""
    packed = value if is_plain(value) else pack_value(value)
    buffers = IncomingBuffers()
    if isinstance(packed, Packet):
        packed.part_numbers = tuple(range(len(packed.parts)))
        for number, part in enumerate(packed.parts):
            deliver(buffers, number, part)
    got: Any
    (got,) = decode(encode([packed]))
    kind = type(cast("object", got))
    if kind is list:
        return tuple(got)
    if kind is Ext:
        return Unpacker(buffers.take).unpack(got)[0]
    return got


def deliver(buffers: IncomingBuffers, number: int, part: Part) -> None:
    size = part.data.nbytes
    for start in range(0, size, 50_000):
        chunk = part.data.cast("B")[start : start + 50_000]
        buffers.reserve(number, size, part.is_frozen, chunk.nbytes)[:] = chunk


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in all their parts, types included."""
    if type(one) is not type(other):
        return False
    kind = type(cast("object", one))
    if kind in {list, tuple}:
        return len(one) == len(other) and all(map(same, one, other))
    if kind is memoryview:
        return bool(one == other and one.readonly == other.readonly)
    if kind in {dict, OrderedDict}:
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, float):
        return one.hex() == str(other.hex())
    return bool(one == other)


@pytest.mark.slow
@given(VALUES)
def test_what_goes_in_comes_out(value: object) -> None:
    assert same(travelled(value), value)


@pytest.mark.slow
@given(
    st.lists(st.one_of(LARGE_ONES, SCALARS), min_size=1, max_size=4),
    st.dictionaries(st.text(max_size=3), LARGE_ONES, max_size=2),
)
def test_large_arguments_come_out_too(values: list[Any], named: dict[str, Any]) -> None:
    for arguments in (tuple(values), (tuple(values), named), values[0]):
        assert same(travelled(arguments), arguments)


@given(
    st.sampled_from("bBhHiIlLqQfd?"),
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.sampled_from([1, 3000]),
    st.booleans(),
    st.integers(1, 2),
)
def test_views_keep_their_format_shape_and_access(
    form: str, shape: list[int], times: int, is_frozen: bool, step: int
) -> None:
    count = prod(shape) * times
    data = bytes(index % 2 for index in range(count * calcsize(form)))
    flat = view_of(data if is_frozen else bytearray(data))
    view = flat.cast(form, [shape[0] * times, *shape[1:]])
    if len(shape) == 1:
        # Not contiguous: another process gets the items without the gaps.
        view = view[::step]
    got = travelled((view,))[0]
    assert got == view
    assert (got.format, got.shape, got.readonly) == (view.format, view.shape, is_frozen)
    assert got.c_contiguous


@given(SCALARS, st.lists(SCALARS, max_size=20))
def test_only_what_cannot_change_is_plain(one: object, several: list[object]) -> None:
    exact = {type(None), bool, int, float, str, bytes}
    if is_plain(one):
        assert type(one) in exact
    if is_plain(tuple(several)):
        assert all(type(each) in exact for each in several)
    assert not is_plain(several)


class Odd(Exception):  # noqa: N818  # it is odd
    """An exception with two arguments."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)


class Bad(Exception):  # noqa: N818  # it is bad
    """An exception that cannot be shown or pickled."""

    def __str__(self) -> str:
        raise ValueError("no")

    def __reduce__(self) -> Any:
        raise ValueError("no")


@pytest.mark.guarantee("G148")
@given(
    st.text(),
    st.integers(),
    st.sampled_from([ValueError, KeyError, RemoteError, Odd, Bad, KeyboardInterrupt]),
)
def test_every_exception_crosses_as_itself_or_as_a_remote_error(
    text: str, number: int, kind: type[BaseException]
) -> None:
    error = Odd(number, 1) if kind is Odd else kind(text)
    got = unpack_error(pack_error(error))
    if kind is Bad:
        assert isinstance(got, RemoteError)
        assert got.kind.endswith(".Bad")
    else:
        assert type(got) is kind
        assert got.args == error.args
    assert kind.__name__ in str(got.__cause__)
