"""Who a frame that has come is for: messages are the inbound's, answers and acknowledgements the ledger's, the rest is rare."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import MsgspecError
from msgspec.msgpack import Decoder

from bandstand.errors import BadMessage
from bandstand.errors.formatting import safe_str
from bandstand.pod.link.numbers import ACKS, ANSWERS, MESSAGES

if TYPE_CHECKING:
    from bandstand.pod.link.hot.inbound import Inbound
    from bandstand.pod.link.hot.ledger import Ledger

Kind: TypeAlias = int

decode = Decoder(list[Any]).decode
decode_acks = Decoder(list[int]).decode


class Sorting:
    """Gives each frame to whom it is for, until it is closed.

    Args:
        inbound: takes messages.
        ledger: takes answers and acknowledgements.
        rare: takes every other frame, by its kind.
    """

    __slots__ = ("_inbound", "_ledger", "_rare", "is_closed")

    def __init__(self, inbound: Inbound, ledger: Ledger, rare: Callable[[int, memoryview], None]) -> None:
        self._inbound = inbound
        self._ledger = ledger
        self._rare = rare
        self.is_closed = False

    def deliver(self, kind: Kind, body: memoryview) -> None:
        """A frame has come.

        Raises:
            BadMessage: it makes no sense.
        """
        if self.is_closed:
            return
        try:
            if kind == MESSAGES:
                self._inbound.take(decode(body))
            elif kind == ANSWERS:
                self._ledger.take_answers(decode(body))
            elif kind == ACKS:
                self._ledger.take_acks(decode_acks(body))
            else:
                self._rare(kind, body)
        except MsgspecError as error:
            raise BadMessage(f"a frame that came over the link cannot be read: {safe_str(error)}") from error
