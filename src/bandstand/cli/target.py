"""Which node a command asks, and how it is asked."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TextIO, final

from bandstand.bus.client.address import Address
from bandstand.bus.client.blocking import BlockingConnection, connect_blocking
from bandstand.bus.client.config import ClientConfig
from bandstand.bus.token import Token

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ("Target", "say")


@final
@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A node, and how long it is waited for."""

    address: Address
    timeout_ms: int = 30_000
    token_file: str = ""
    """Where the token lies that the node may ask for; empty for `$BANDSTAND_TOKEN`, or none."""

    def config(self, *, is_patient: bool = False) -> ClientConfig:
        """How to connect; `is_patient` if a node that hangs up is to be looked for again.

        Raises:
            InvalidArgument: the token cannot be read.
        """
        token = Token.read(self.token_file).value if self.token_file else None
        usual = ClientConfig()
        return ClientConfig(
            timeout_ms=self.timeout_ms,
            token=token,
            give_up_ms=usual.give_up_ms if is_patient else 0,
        )

    @contextmanager
    def connected(self, *, is_patient: bool = False) -> Generator[BlockingConnection]:
        """A connection with it."""
        with connect_blocking(self.address, self.config(is_patient=is_patient)) as bus:
            yield bus


def say(stream: TextIO, text: str) -> None:
    """Write a line now: whoever reads it is waiting."""
    stream.write(text + "\n")
    stream.flush()
