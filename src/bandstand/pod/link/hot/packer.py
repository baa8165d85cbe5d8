"""Packs arguments in the call that sends them, on whatever thread that is."""

# The hot modules are one mechanism in several files: they share kernels' insides by .pxd.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any

from bandstand.core import Lane
from bandstand.errors.formatting import safe_repr, safe_str
from bandstand.pod.link.budget import ByteBudget
from bandstand.pod.link.codec import Carried, culprit, pack_value
from bandstand.pod.link.hot.plain import is_plain
from bandstand.pod.passport import sending

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bandstand.actor import Loop
    from bandstand.actor.dispatch import Method
    from bandstand.actor.handle import Handle
    from bandstand.core import ActorId
    from bandstand.pod.passport import HandleCheck

UNSET = object()
USER_LANES = (int(Lane.CONTROL), int(Lane.MANAGEMENT), int(Lane.DATA))


class Packer:
    """Packs arguments.

    Args:
        carries: the context variables that travel along, where they are set and are not their defaults.
        check: says why the receiver could not resolve a handle among the arguments; without it, no handle can be sent.
        bounds: how many bytes may be under way to a lane of a role, by its name; no bound for those that are not there.
    """

    __slots__ = ("_bounds", "_budgets", "_carries", "_check")

    def __init__(
        self,
        carries: tuple[ContextVar[Any], ...],
        check: HandleCheck | None = None,
        bounds: Mapping[str, int] | None = None,
    ) -> None:
        self._check = check
        self._bounds: Mapping[str, int] = bounds or {}
        self._budgets: dict[tuple[str, int], ByteBudget] = {}
        self._carries = tuple(
            [(place, carries[place], default_of(carries[place])) for place in range(len(carries))]
        )

    def pack(self, handle: Handle | None, method: Method, data: object) -> object:
        """What is posted in the place of these arguments: themselves, if they are plain, or a packet.

        Raises:
            TypeError: one of them, or of what travels along, cannot be pickled, or is a handle that the receiver could not
                resolve; it is named.
        """
        carried = self.carried() if self._carries else ()
        if not carried and is_plain(data):
            return data
        place = None if handle is None else handle.__handle_ref__
        # The pod it is sent to.
        pod = getattr(place, "pod", None)
        with sending(self._check, pod):
            try:
                packet = pack_value(data, carried)
            except Exception as error:
                raise TypeError(
                    f"{method.owner}.{method.name}() of {safe_repr(handle)} cannot be sent to another process: {culprit(data, carried)} cannot be "
                    f"pickled ({safe_str(error)})"
                ) from error
        if self._bounds:
            budget = self._budget_of(getattr(place, "role", ""), method.lane)
            if budget is not None:
                packet.charge(budget)
        return packet

    def join(self, role: str, porch: Loop, actor: ActorId) -> None:
        """Messages to a role go to this stand-in from now on."""
        for lane in USER_LANES:
            budget = self._budget_of(role, lane)
            if budget is not None:
                budget.join(porch, actor)

    def _budget_of(self, role: str, lane: int) -> ByteBudget | None:
        """The bytes of a lane of a role, over all its incarnations; None if there is no bound."""
        budget = self._budgets.get((role, lane))
        if budget is None and role in self._bounds:
            # Another thread may do the same: the first one counts.
            budget = self._budgets.setdefault((role, lane), ByteBudget(self._bounds[role], lane))
        return budget

    def carried(self) -> Carried:
        """What travels along from here."""
        carried: list[tuple[int, Any]] = []
        for place, variable, default in self._carries:
            value = variable.get(UNSET)
            if value is not UNSET and value is not default:
                carried.append((place, value))
        return tuple(carried)


def default_of(variable: ContextVar[Any]) -> object:
    """The default of a context variable; UNSET if it has none."""
    try:
        return Context().run(variable.get)
    except LookupError:
        return UNSET
