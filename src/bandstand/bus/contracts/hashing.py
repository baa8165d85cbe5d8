"""What sets and dictionaries can hold: values that have a hash, and values that are written in one way only."""

from __future__ import annotations

from typing import cast

from msgspec import Struct
from msgspec import inspect as shapes

__all__ = ("is_canonical", "is_hashable")

SCALARS = (
    shapes.NoneType,
    shapes.BoolType,
    shapes.IntType,
    shapes.FloatType,
    shapes.StrType,
    shapes.BytesType,
    shapes.DateTimeType,
    shapes.TimeType,
    shapes.DateType,
    shapes.TimeDeltaType,
    shapes.UUIDType,
    shapes.DecimalType,
    shapes.EnumType,
    shapes.LiteralType,
)
CANONICAL = (
    shapes.IntType,
    shapes.StrType,
    shapes.BytesType,
    shapes.DateType,
    shapes.EnumType,
    shapes.LiteralType,
)


def is_hashable(shape: shapes.Type, inside: frozenset[type[object]] = frozenset()) -> bool:
    """Whether every value of a type has a hash; `inside` are the classes whose fields are being looked at."""
    match shape:
        case shapes.Metadata():
            return is_hashable(shape.type, inside)
        case shapes.UnionType():
            return all(is_hashable(each, inside) for each in shape.types)
        case shapes.TupleType():
            return all(is_hashable(each, inside) for each in shape.item_types)
        case shapes.VarTupleType() | shapes.FrozenSetType():
            return is_hashable(shape.item_type, inside)
        case shapes.StructType() | shapes.DataclassType() | shapes.NamedTupleType():
            # A class without a hash says so; of one that has it, the hash is made of its fields.
            within = inside | {shape.cls}
            return shape.cls in inside or (
                _has_hash(shape.cls) and all(is_hashable(each.type, within) for each in shape.fields)
            )
        case _:
            return isinstance(shape, SCALARS)


def _has_hash(kind: type[object]) -> bool:
    found: object = getattr(kind, "__hash__", None)
    if found is Struct.__hash__:
        # Every Struct has this method, but it works only for these.
        config = cast("type[Struct]", kind).__struct_config__
        return config.frozen or not config.eq
    return found is not None


def is_canonical(shape: shapes.Type) -> bool:
    """Whether equal values of a type are written alike, so that as many are read as were written."""
    if isinstance(shape, shapes.Metadata):
        return is_canonical(shape.type)
    return isinstance(shape, CANONICAL)
