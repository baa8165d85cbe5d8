"""How one type of payload is read and written, as far as every message comes by.

Two calls of msgspec each, and nothing more where nothing is wrong. What to do about the rest is said by `Payload`, which derives from
this.
"""

# has_null comes from one of two places, of which the checker sees one.
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec import Raw

try:
    import cython
except ModuleNotFoundError:  # interpreted, where Cython is not installed
    from bandstand.core import _cython as cython  # type: ignore[no-redef]  # one of the two

Flag: TypeAlias = bool

NOTHING = Raw(b"{}")

if not cython.compiled:
    # Compiled, this is C, in the .pxd: `in` first tries whether the word is a number, and makes an exception of it.
    def has_null(line: bytes) -> bool:
        """Whether the word null is in a line, perhaps inside a string."""
        return b"null" in line


class Codec:
    """Reads and writes one type of payload. Any, here: what its values are is said by who derives from it."""

    __slots__ = ("_decode", "_encode", "_is_nothing")

    def __init__(
        self, decode: Callable[[Any], Any], encode: Callable[[Any], bytes], is_nothing: Flag
    ) -> None:
        self._decode = decode
        self._encode = encode
        self._is_nothing = is_nothing

    def read(self, data: Any) -> Any:
        """Decode a payload.

        Raises:
            BadMessage: it is not what the type asks for; says what is wrong, and where.
        """
        try:
            return self._decode(data)
        except Exception as error:  # noqa: BLE001  # a class's own check may raise anything over what a stranger has sent
            return self.read_again(data, error)

    def write(self, value: Any) -> Raw:
        """Encode a payload, and see that `read` would take it.

        Raises:
            OutboundFault: it would not; says what is wrong, and where.
        """
        if self._is_nothing:
            if value is None or value == {}:
                return NOTHING
            raise self.unfit(value, TypeError())
        try:
            line = self._encode(value)
            self._decode(line)
        except Exception as error:
            raise self.unfit(value, error) from error
        if has_null(line):
            self.check_finite(value)
        return Raw(line)

    # -- what is rare ------------------------------------------------------------------------------------------------------

    def read_again(self, data: Any, error: Exception) -> Any:
        """Decoding has failed: read it after all, or say what is wrong."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def unfit(self, value: Any, error: Exception) -> Exception:
        """What to raise for a value that cannot be written, or not be read again."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def check_finite(self, value: Any) -> None:
        """Refuse a number that JSON does not have: it has become null."""
        raise NotImplementedError  # a hook: who derives from this fills it in
