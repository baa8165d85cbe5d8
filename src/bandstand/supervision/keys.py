"""From a key to a place: hashes that are the same in every run, on every machine, in every version of Python."""

from __future__ import annotations

from hashlib import blake2b
from zlib import crc32

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("jump_of", "place_of")

WORD = (1 << 64) - 1


def place_of(key: str | bytes | int, partitions: int) -> int:
    """The partition of a key, from 0 on: stable over runs, machines and versions of Python.

    Raises:
        InvalidArgument: the key is no str, bytes or int, of other things there is no hash that stays the same; or there
            is not even one partition.
    """
    if type(partitions) is not int or partitions < 1:
        raise InvalidArgument(f"partitions is {safe_repr(partitions)}: pass how many there are, from 1 on")
    return crc32(_text_of(key)) % partitions


def jump_of(key: str | bytes | int, places: int) -> int:
    """The same where the number of places changes: from n to n + 1, one key in n + 1 moves, to the new place.

    Lamping and Veach's jump consistent hash.
    """
    state = int.from_bytes(blake2b(_text_of(key), digest_size=8).digest(), "big")
    place, following = -1, 0
    while following < places:
        place = following
        state = (state * 2862933555777941757 + 1) & WORD
        following = (place + 1) * (1 << 31) // ((state >> 33) + 1)
    return place


def _text_of(key: object) -> bytes:
    if isinstance(key, str):
        return b"s" + key.encode("utf-8", "surrogatepass")
    if isinstance(key, bytes):
        return b"b" + key
    if type(key) is int:
        return b"i%x" % key
    raise InvalidArgument(f"key is {safe_repr(key)}: pass a str, bytes or an int")
