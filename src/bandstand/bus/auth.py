"""Authentication by token: a shared secret that clients send where anyone can connect.

A token is read from a file, not from the command line, which every user of the machine can see. A file that other users can read
is rejected.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from typing import final

from bandstand.errors import InvalidArgumentError
from bandstand.errors.formatting import safe_repr

__all__ = ("Token",)

# A shorter token could be guessed; a longer one does not fit into a client's first line.
MIN_LENGTH = 16
MAX_LENGTH = 1024

HOW_TO_CREATE = "create one with: (umask 077; openssl rand -hex 32 > FILE)"


@final
class Token:
    """A secret. Neither `repr` nor an error shows it.

    Args:
        value: the text that clients send: 16 to 1024 printable ASCII characters, without spaces.

    Raises:
        InvalidArgumentError: the value is not a token; the error does not contain the value.
    """

    __slots__ = ("_digest", "value")

    def __init__(self, value: str) -> None:
        problem = _problem(value)
        if problem:
            raise InvalidArgumentError(f"the token {problem}: {HOW_TO_CREATE}")
        self.value = value
        """The text, for clients that send it."""
        self._digest = _digest(value)

    def __repr__(self) -> str:
        return "Token(…)"

    def is_shown_by(self, text: str) -> bool:
        """Return whether `text` is this token. The time it takes does not depend on how much of it is right."""
        return hmac.compare_digest(self._digest, _digest(text))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Token:
        """Read a token from a file that contains nothing else.

        Raises:
            InvalidArgumentError: the file cannot be read, users other than its owner can read or write it, or it does not contain a token.
        """
        where = f"the token file {safe_repr(os.fspath(path))}"
        try:
            # Without O_NONBLOCK, opening a pipe would wait for a writer.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            problem = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidArgumentError(f"{where} cannot be read: {problem}") from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise InvalidArgumentError(f"{where} is not a regular file: {HOW_TO_CREATE}")
            if found.st_uid not in {os.geteuid(), 0}:
                raise InvalidArgumentError(
                    f"{where} belongs to another user, who can read it: {HOW_TO_CREATE}"
                )
            if found.st_mode & 0o077:
                raise InvalidArgumentError(
                    f"{where} has mode {stat.S_IMODE(found.st_mode):04o}, so other users can read or write it: chmod 600 it, and "
                    f"replace the token if they may have read it"
                )
            text = os.read(descriptor, MAX_LENGTH + 3).removesuffix(b"\n").removesuffix(b"\r")
        finally:
            os.close(descriptor)
        value = text.decode("ascii", "replace")
        if problem := _problem(value):
            raise InvalidArgumentError(f"{where}: its content {problem}: {HOW_TO_CREATE}")
        return cls(value)


def _problem(value: object) -> str:
    """Return what is wrong with a token, without the token itself; empty if it is valid."""
    if type(value) is not str:
        return f"has the type {type(value).__name__}, not str"
    if not MIN_LENGTH <= len(value) <= MAX_LENGTH:
        return f"has {len(value)} characters, but needs {MIN_LENGTH} to {MAX_LENGTH}"
    if not (value.isascii() and value.isprintable()) or " " in value:
        return "has spaces, line breaks or characters that are not ASCII"
    return ""


def _digest(text: str) -> bytes:
    # A digest has a fixed length, so that the comparison does not reveal the length. JSON can contain surrogates.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
