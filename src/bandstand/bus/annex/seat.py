"""The seat of the one capability of an annex: without a supervisor, and it tells when a handler has come to its end."""

from __future__ import annotations

from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from bandstand.bus.hosting import WorkerHost
from bandstand.bus.seat import Seat, SeatState
from bandstand.bus.ward import Ward

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from bandstand.bus.annex.router import AnnexRouter
    from bandstand.bus.contracts.blueprint import Blueprint
    from bandstand.bus.hot.pending import Delivery, Pending
    from bandstand.core import ActorId, Context

__all__ = ("AnnexSeat",)


class AnnexSeat(Seat):
    """The seat of the one capability, without a supervisor; it tells when a handler has come to its end."""

    __slots__ = ("_on_finished", "_player")

    def __init__(
        self,
        router: AnnexRouter,
        blueprint: Blueprint,
        *,
        on_risen: Callable[[], None],
        on_finished: Callable[[Pending | Delivery], None],
    ) -> None:
        super().__init__(router, Vigil(router, on_risen), blueprint)
        self._on_finished = on_finished
        self._player: ActorId | None = None

    @property
    def is_worker(self) -> bool:
        """Whether it answers in its own time."""
        return isinstance(self._performer, WorkerHost)

    def launch(self, *, is_trial: bool = False) -> None:  # noqa: ARG002  # the signature of a seat
        """Start it."""
        loop = self._router.loop
        self._player = loop.kernel.actors.spawn_child(
            self.behave,
            self._begin,
            name=self.id,
            cap=self._cap + loop.config.sys_reserved,
            supervisor=self._router.actor,
            context=copy_context(),
        )

    def stop(self) -> None:
        """End it in good order: what it is at is cancelled."""
        self.state = SeatState.STOPPED
        if self._player is not None:
            self._router.loop.kernel.actors.stop_or_kill(self._player)

    # Any: as for every behavior.
    def behave(self, ctx: Context[Any], item: Any) -> Any:
        """Deal with one message, and tell when that is done."""
        result: Coroutine[Any, Any, None] | None = super().behave(ctx, item)
        if result is None:
            self._on_finished(item)
            return None
        return self._see_out(item, result)

    async def _see_out(self, item: Pending | Delivery, result: Coroutine[Any, Any, None]) -> None:
        await result
        self._on_finished(item)


class Vigil(Ward):
    """Looks after that one: it only has to tell the node."""

    __slots__ = ("_on_risen",)

    def __init__(self, router: AnnexRouter, on_risen: Callable[[], None]) -> None:
        super().__init__(router)
        self._on_risen = on_risen

    def watch(self, seat: Seat, actor: ActorId) -> None:
        """Nothing: it has us for a supervisor."""

    def risen(self, seat: Seat) -> None:  # noqa: ARG002  # there is one
        """Tell the node."""
        self._on_risen()
