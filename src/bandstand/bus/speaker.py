"""What a capability says, held against its contract: answers that are errors, and everything that is not an answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bandstand.bus.faults import REFUSED, FaultAnswer
from bandstand.bus.frame import Kind
from bandstand.bus.hot.pending import Delivery, Pending
from bandstand.bus.hot.stand import Stand
from bandstand.errors import OutboundFault, Refused
from bandstand.errors.formatting import describe_exception, safe_repr

if TYPE_CHECKING:
    from msgspec import Raw

    from bandstand.bus.contracts.blueprint import Blueprint
    from bandstand.bus.contracts.payload import Payload
    from bandstand.bus.router import Router

__all__ = ("Speaker",)


class Speaker(Stand):
    """A capability as far as it speaks."""

    __slots__ = ("_outbound", "_router", "blueprint")

    def __init__(self, router: Router, blueprint: Blueprint) -> None:
        super().__init__(router)
        self._router = router
        self.blueprint = blueprint
        self._outbound: dict[tuple[Kind, str], Payload[Any]] = dict(blueprint.outbound)

    @property
    def id(self) -> str:
        """The capability's name."""
        return self.blueprint.id

    @property
    def router(self) -> Router:
        """Whose capability it is."""
        return self._router

    def check_silence(self, item: Delivery, value: object) -> None:
        """The handler of an event has returned something.

        Raises:
            OutboundFault: so it is; nobody waits for it.
        """
        if value is not None:
            raise OutboundFault(
                f"{self.id}: the handler of event {item.frame.type} has returned {safe_repr(value)}: nobody waits for an answer"
            )

    def is_refused(self, item: Pending | Delivery, error: Exception) -> bool:
        """Answer a message if its handler has refused it: by `Refused`, or by an exception that its contract declares.

        Returns:
            False if the handler has failed; nothing is answered then.

        Raises:
            OutboundFault: the contract does not name the error that it wants to answer with.
        """
        if not self.is_refusal(error):
            return False
        self.refuse(item, error if isinstance(error, Refused) else Refused(describe_exception(error)))
        return True

    def is_refusal(self, error: BaseException) -> bool:
        """Whether an exception of a handler is an answer, and no failure."""
        if isinstance(error, Refused):
            return True
        # What the runtime finds wrong with an answer is a failure, however wide the declaration is.
        return isinstance(error, self.blueprint.refuses) and not isinstance(error, OutboundFault)

    def refuse(self, item: Pending | Delivery, refusal: Refused) -> None:
        """Answer the message at hand with an error that its handler wants.

        Raises:
            OutboundFault: the contract does not name it.
        """
        answer = refusal.answer
        if isinstance(answer, str):
            answer = FaultAnswer(REFUSED, answer)
        if isinstance(answer, FaultAnswer):
            router = self._router
            fault = router.faults.make(
                answer.type, answer.message, request=item.frame, path=answer.path, capability=self.id
            )
            if type(item) is Pending:
                router.answer(item, fault)
            else:
                router.sink(fault)
            return
        kind, type_name = getattr(answer, "message_kind", None), getattr(answer, "message_type", "")
        if kind != "error" or not type_name:
            raise OutboundFault(
                f"{self.id}: Refused({safe_repr(answer)}): pass words, or an instance of a class that derives from Failure"
            )
        self.answer(item, "error", type_name, self.written("error", type_name, answer))

    def written(self, kind: Kind, type_name: str, data: object) -> Raw:
        """What the capability says, checked against its contract.

        Raises:
            OutboundFault: the contract does not allow it.
        """
        payload = self._outbound.get((kind, type_name))
        if payload is None:
            allowed = (
                ", ".join(sorted(f"{k} {t}" for k, t in self._outbound if k != "reply"))
                or "nothing but replies"
            )
            raise OutboundFault(
                f"{self.id}: its contract does not name {kind} {type_name} as something it says; outbound has {allowed}"
            )
        return payload.write(data)
