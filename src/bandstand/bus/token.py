"""A token: the secret that a client shows where whoever can connect need not be whoever may.

It is read from a file, never from the command line, where everybody sees it who can list processes. A file that others can read is no
place for a secret: it is refused, as a key would be that others can read.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from typing import final

from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("Token",)

# Characters: fewer could be guessed, more would fit into no first line.
SHORTEST = 16
LONGEST = 1024

MAKE_ONE = "make one with: (umask 077; openssl rand -hex 32 > FILE)"


@final
class Token:
    """A secret. It is never shown: neither by `repr`, nor in an error.

    Args:
        value: what the client has to say: 16 to 1024 letters, digits and signs of ASCII, without spaces.

    Raises:
        InvalidArgument: it is no token; what it is, is not said.
    """

    __slots__ = ("_digest", "value")

    def __init__(self, value: str) -> None:
        problem = _problem(value)
        if problem:
            raise InvalidArgument(f"the token {problem}: {MAKE_ONE}")
        self.value = value
        """What it is: for those who have to say it."""
        self._digest = _digest(value)

    def __repr__(self) -> str:
        return "Token(…)"

    def is_shown_by(self, said: str) -> bool:
        """Whether this is what was said. It takes as long for a wrong one, however much of it is right."""
        return hmac.compare_digest(self._digest, _digest(said))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Token:
        """Read one from a file, whose first and only line it is.

        Raises:
            InvalidArgument: there is no such file, others than its owner can read or write it, or what is in it is no token.
        """
        where = f"the token file {safe_repr(os.fspath(path))}"
        try:
            # Not to wait for somebody to write into what turns out to be a pipe.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except (OSError, ValueError) as error:
            said = error.strerror if isinstance(error, OSError) else str(error)
            raise InvalidArgument(f"{where} cannot be read: {said}") from error
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise InvalidArgument(f"{where} is no regular file: {MAKE_ONE}")
            if found.st_uid not in {os.geteuid(), 0}:
                raise InvalidArgument(
                    f"{where} belongs to somebody else, who knows what is in it: {MAKE_ONE}"
                )
            if found.st_mode & 0o077:
                raise InvalidArgument(
                    f"{where} has the mode {stat.S_IMODE(found.st_mode):04o}, so others can read or write it: chmod 600 it, and "
                    f"if they may have, put another token into it"
                )
            text = os.read(descriptor, LONGEST + 3).removesuffix(b"\n").removesuffix(b"\r")
        finally:
            os.close(descriptor)
        value = text.decode("ascii", "replace")
        if problem := _problem(value):
            raise InvalidArgument(f"{where}: what is in it {problem}: {MAKE_ONE}")
        return cls(value)


def _problem(value: object) -> str:
    """What is wrong with it, without saying what it is."""
    if type(value) is not str:
        return f"is a {type(value).__name__}, and no str"
    if not SHORTEST <= len(value) <= LONGEST:
        return f"has {len(value)} characters, and needs {SHORTEST} to {LONGEST}"
    if not (value.isascii() and value.isprintable()) or " " in value:
        return "has spaces, ends of lines or characters that are not ASCII"
    return ""


def _digest(text: str) -> bytes:
    # Of one length, whatever that of the text: to compare tells nothing of it. A surrogate can come from JSON.
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
