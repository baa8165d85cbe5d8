"""The fields of frames, read fast.

A field of a struct is a slot behind a descriptor. The interpreter has learnt to go there straight; compiled code has not, and looks the
name up in the class each time, which for the dozen fields that a request is asked for costs as much as decoding it. So the descriptors
are looked up once, and asked directly.
"""

# frame and metadata are what they say; the descriptors' own types are Python's affair.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.bus.frame import Frame, Metadata

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.frame import Kind

KIND: Any = Frame.__dict__["kind"]
TYPE: Any = Frame.__dict__["type"]
DATA: Any = Frame.__dict__["data"]
METADATA: Any = Frame.__dict__["metadata"]
ID: Any = Metadata.__dict__["id"]
TIMEOUT: Any = Metadata.__dict__["timeout"]
CORRELATION: Any = Metadata.__dict__["correlation"]


if not cython.compiled:
    # Compiled, this is C, in the .pxd.
    def read(descriptor: Any, owner: object) -> Any:
        """What a descriptor says of an object of its class."""
        return descriptor.__get__(owner)


def kind_of(frame: Frame) -> Kind:
    """The kind of a frame."""
    kind: Kind = read(KIND, frame)
    return kind


def type_of(frame: Frame) -> str:
    """The type of a frame."""
    name: str = read(TYPE, frame)
    return name


def data_of(frame: Frame) -> Raw:
    """The data of a frame."""
    data: Raw = read(DATA, frame)
    return data


def metadata_of(frame: Frame) -> Metadata:
    """The metadata of a frame."""
    metadata: Metadata = read(METADATA, frame)
    return metadata


def id_of(metadata: Metadata) -> str:
    """The id of a message."""
    name: str = read(ID, metadata)
    return name


def timeout_of(metadata: Metadata) -> int | None:
    """How long a request may take."""
    timeout: int | None = read(TIMEOUT, metadata)
    return timeout


def correlation_of(metadata: Metadata) -> str | None:
    """What groups a message with others."""
    correlation: str | None = read(CORRELATION, metadata)
    return correlation
