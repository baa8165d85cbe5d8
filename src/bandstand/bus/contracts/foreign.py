"""Classes that bring their own validation: pydantic models, known by what they can do and never imported.

A model reads itself from JSON, writes itself as JSON and knows its own JSON Schema. Whoever has these three is served, so pydantic
costs nothing where nobody uses it, and whatever has the same three methods is served as well.
"""

from __future__ import annotations

from inspect import signature
from typing import Any, Protocol, TypeGuard, cast

import msgspec

from bandstand.bus.contracts.tight import tight_generator
from bandstand.bus.whole import with_whole_numbers
from bandstand.errors.formatting import safe_str

__all__ = ("ForeignError", "Model", "is_model", "problem_of", "read_model", "schema_of_model", "write_model")


class Model(Protocol):
    """As much of `pydantic.BaseModel` as is needed here."""

    @classmethod
    def model_validate_json(cls, json_data: bytes) -> object:
        """Read one."""
        ...

    def model_dump_json(self, *, by_alias: bool) -> str:
        """Write one."""
        ...

    @classmethod
    # Any: a JSON Schema is a tree of plain values, and of its options we know some.
    def model_json_schema(cls, **options: Any) -> dict[str, Any]:
        """Tell what one looks like."""
        ...


class ForeignError(ValueError):
    """What a model has found wrong, and the path inside it."""

    def __init__(self, problem: str, path: str) -> None:
        super().__init__(problem)
        self.path = path


def is_model(kind: object) -> TypeGuard[type[Model]]:
    """Whether a class validates itself as a pydantic model does."""
    return isinstance(kind, type) and all(
        callable(getattr(kind, name, None))
        for name in ("model_validate_json", "model_dump_json", "model_json_schema")
    )


def read_model(kind: type, value: object) -> object:
    """Make a model out of plain values: what msgspec calls for a class that it does not know.

    Raises:
        ForeignError: the model does not take them.
        NotImplementedError: it is no model.
    """
    if kind is object:
        return value
    if not is_model(kind):
        # How a hook of msgspec says that it does not know a class either.
        raise NotImplementedError(f"{kind.__name__} is no class that msgspec or pydantic can read")
    line = msgspec.json.encode(value)
    try:
        # By way of JSON, because a model in strict mode takes a date or a tuple from JSON that it would not take from Python.
        return kind.model_validate_json(line)
    except ValueError as error:
        try:
            # In strict mode it takes no 1.0 for an integer.
            return kind.model_validate_json(with_whole_numbers(line))
        except ValueError:
            raise problem_of(error) from error


def write_model(value: object) -> object:
    """Make plain values out of a model: what msgspec calls for an object that it does not know.

    Raises:
        NotImplementedError: it is no model.
    """
    if not is_model(type(value)):
        # As above.
        raise NotImplementedError(f"{type(value).__name__} is nothing that msgspec or pydantic can write")
    return msgspec.Raw(cast("Model", value).model_dump_json(by_alias=True).encode())


# Any: a JSON Schema is a tree of plain values.
def schema_of_model(kind: type[Model], prefix: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON Schema of a model, and the definitions that it refers to.

    Args:
        kind: the model.
        prefix: what its references begin with, so that they meet with nobody else's.
    """
    options: dict[str, Any] = {"by_alias": True, "ref_template": f"{prefix}{{model}}"}
    offered = signature(kind.model_json_schema).parameters.get("schema_generator")
    if offered is not None:
        options["schema_generator"] = tight_generator(offered.default)
    schema = kind.model_json_schema(**options)
    return schema, cast("dict[str, Any]", schema.pop("$defs", {}))


def problem_of(error: Exception) -> ForeignError:
    """What a model has found wrong, in one line: the first of it, and how much more there is."""
    details = getattr(error, "errors", None)
    # Any: what pydantic tells about an error is a dictionary of plain values.
    found = cast("list[dict[str, Any]]", details() if callable(details) else [])
    if not found:
        return ForeignError(safe_str(error), "")
    first = found[0]
    path = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first.get("loc", ()))
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return ForeignError(f"{first.get('msg', error)}{more}", path)
