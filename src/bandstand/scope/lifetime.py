"""The life of a scope: how it begins, how it is told to end, how it ends, and what it ends with. `Scope` is what to use.

Three things end it before its body does. A child fails: its error is noted, and the scope's own token cancelled. Somebody cancels
that token. Somebody cancels the token it was given, or one above that. All of them come down to the same: the children are cancelled,
in the turn in which it is heard; the body in one that follows, unless it was the body itself that cancelled the scope. Then it goes
on, until a child fails, or somebody else asks.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Callable
from enum import Enum
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from bandstand.core import Loop
from bandstand.core.lifelines import current_loops
from bandstand.core.lowlevel import is_open
from bandstand.errors import InvalidArgument, ScopeClosed, WrongThread
from bandstand.errors.formatting import safe_repr
from bandstand.scope.alarm import Alarm, set_alarm
from bandstand.scope.body import Body
from bandstand.scope.checks import check_token, checked_ms
from bandstand.scope.child import ConsumerChild
from bandstand.scope.children import Children
from bandstand.scope.ledger import Ledger
from bandstand.scope.token import CancelToken

if TYPE_CHECKING:
    from bandstand.scope.channelactor import ChannelActor
    from bandstand.scope.child import Child

__all__ = ("Lifetime", "Phase")


class Phase(Enum):
    """How far a scope is."""

    NEW = "not entered"
    OPEN = "open"
    JOINING = "joining"
    OVER = "over"


class Lifetime:
    """A scope without what it offers."""

    __slots__ = (
        "_above",
        "_alarm",
        "_body",
        "_children",
        "_is_ending",
        "_ledger",
        "_loop",
        "_phase",
        "_retracts",
        "_stop_ms",
        "name",
        "token",
    )

    def __init__(
        self, token: CancelToken | None, loop: Loop | None, stop_timeout_ms: float | None, name: str | None
    ) -> None:
        if name is not None and not isinstance(name, str):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"name is {safe_repr(name)}: pass a string")
        if token is not None:
            check_token(token)
        self.name = name
        """What it is called, in errors and in the log."""
        self.token = CancelToken(token, loop=loop)
        """Its own token: a child of the one it was given. It is cancelled with the scope, and when the scope is over."""
        self._above = token
        self._loop = loop
        self._stop_ms = None if stop_timeout_ms is None else checked_ms(stop_timeout_ms, "stop_timeout_ms")
        self._phase = Phase.NEW
        self._body: Body | None = None
        self._children = Children(self._called, self._fail)
        self._ledger = Ledger(self._called, self.token, token)
        self._alarm: Alarm | None = None
        self._retracts: list[Callable[[], bool]] = []
        # Whether the children are being cancelled.
        self._is_ending = False

    @property
    def _called(self) -> str:
        return "a scope" if self.name is None else f"scope {self.name!r}"

    def __repr__(self) -> str:
        name = "" if self.name is None else f" {self.name!r}"
        state = "ending" if self._is_ending and self._phase is not Phase.OVER else self._phase.value
        return f"<Scope{name} {state}: {len(self._children)} in it>"

    # -- the beginning -------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Begin. The task becomes the body's, the event loop the scope's own.

        Raises:
            Cancelled: the token is cancelled already: the body does not begin.
            InvalidArgument: the scope was entered before, no task runs here, or its loop does not ride this event loop.
        """
        if self._phase is not Phase.NEW:
            raise InvalidArgument(
                f"{self._called} was entered before: a scope is for one block, make another one"
            )
        body = Body.here(self._called)
        loops = [loop for loop in current_loops() if is_open(loop)]
        if self._loop is None:
            self._loop = loops[0] if len(loops) == 1 else None
        elif self._loop not in loops:
            raise InvalidArgument(
                f"loop is {safe_repr(self._loop)}, which does not ride the event loop that runs here: use `async with loop:`"
            )
        if self.token.cancelled:
            raise self.token.error(self._called)
        self._body = body
        self._phase = Phase.OPEN
        # The one above first: when the children hear of it, we know already where it came from.
        if self._above is not None:
            self._retracts.append(self._above.on_cancel(self._told_from_above))
        self._retracts.append(self.token.on_cancel(self._told))
        if self.token.origin is not None:
            # By another thread, since we looked; whoever is told late is told in our task.
            body.interrupt()
        return self

    def _check_open(self) -> Body:
        """Where to start something.

        Raises:
            Cancelled, ScopeClosed, WrongThread: nothing can be started here.
        """
        body = self._body
        if body is None or self._phase is Phase.OVER:
            raise ScopeClosed(f"{self._called} is {self._phase.value}: it takes nothing in")
        if not body.is_home():
            raise WrongThread(
                f"{self._called} takes in what is started on its own event loop, in its own thread"
            )
        if self.token.cancelled:
            error = self.token.error(self._called)
            error.args = (f"{self._called} is cancelled ({error.reason}): it takes nothing in any more",)
            raise error
        return body

    def _own(self, child: Child) -> None:
        """Take a child in, which ends at once if the scope is ending."""
        self._children.add(child)
        child.watch()
        if self._is_ending and not child.is_over:
            child.cancel(self._why)

    def _take_actor(self, actor: ChannelActor[Any]) -> None:
        assert self._body is not None
        self._own(ConsumerChild(actor, self._body.host, self._children.ended))

    # -- being told to end ---------------------------------------------------------------------------------------------

    def _fail(self, error: BaseException) -> None:
        """A child has failed."""
        assert self._body is not None
        rest = self._ledger.note(error)
        if self._phase is Phase.OVER and rest is not None:
            self._ledger.tell()
        elif rest is not None:
            # Though it may have cancelled the scope itself.
            self._body.interrupt()
            self.token.cancel(rest)

    def _told(self, _token: CancelToken) -> None:
        """The own token was cancelled. On any thread."""
        assert self._body is not None
        if not self._body.is_asking():
            self._body.interrupt()
        if not self._body.call_home(self._end_children):
            # Nobody is left who could end them: whoever waits for that need not.
            self._children.joined.open(False)  # noqa: FBT003  # what a wait for it gives

    def _told_from_above(self, _token: CancelToken) -> None:
        """The token that was given was cancelled. On any thread."""
        assert self._body is not None
        self._ledger.is_from_above = True
        self._body.interrupt()

    @property
    def _why(self) -> str:
        return f"{self._called} was cancelled: {self.token.reason}"

    def _end_children(self) -> None:
        """Called once, as a token tells once."""
        self._is_ending = True
        if self._stop_ms is not None:
            self._alarm = set_alarm(self._stop_ms, self._give_up)
        self._children.cancel(self._why)

    def _give_up(self) -> None:
        assert self._stop_ms is not None
        self._children.give_up(self._stop_ms)

    # -- the end -------------------------------------------------------------------------------------------------------

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        """End: wait for all children, and raise what they and the body have to say. `Scope` says what, and when.

        Raises:
            ExceptionGroup, BaseExceptionGroup: the errors of the body and of the children.
            Cancelled: the token that the scope was given was cancelled.
        """
        body = self._body
        assert body is not None
        self._phase = Phase.JOINING
        stop = body.leave(error)
        if error is not None:
            is_end = isinstance(error, (CancelledError, GeneratorExit))
            self.token.cancel((None if is_end else self._ledger.note(error)) or "its body was cancelled")
        try:
            # A coroutine that was thrown away may not wait any more; a generator that is closed in its task may.
            if not isinstance(error, GeneratorExit) or body.current_task() is body.task:
                stop = await self._join(body, stop)
        finally:
            self._close()
        try:
            return self._judge(body, error, stop)
        finally:
            # An error holds the frames that it went through: they must not hold it.
            del error, stop

    async def _join(self, body: Body, stop: CancelledError | None) -> CancelledError | None:
        """Wait until all children have left; the cancellation to go on with, if there is one that is not ours."""
        while self._children:
            self._children.drain()
            late = await body.wait(self._children.change(body.host))
            if late is not None:
                stop = stop or late
                self.token.cancel("its body was cancelled")
            del late
        self._phase = Phase.OVER
        try:
            return stop if stop is None else await body.sort_out(stop)
        finally:
            del stop

    def _close(self) -> None:
        self._phase = Phase.OVER
        # Whatever holds a method of ours goes: a scope that is over leaves no cycle of references.
        retracts, self._retracts = self._retracts, []
        for retract in retracts:
            retract()
        if self._alarm is not None and not self._children:
            self._alarm.cancel()
            self._alarm = None
        self.token.cancel("the scope is over")
        self._children.join()
        self._children.close()

    def _judge(self, body: Body, error: BaseException | None, stop: CancelledError | None) -> bool:
        """Raise what the block ends with; or answer whether the body's own error has done its work, and is forgotten."""
        errors = self._ledger.take()
        last: BaseException | None = None
        try:
            last = self._ledger.last_word(errors, error, stop)
            if last is None or last is error:
                return last is None
            if errors:
                body.remind()
            raise last
        finally:
            # Whoever catches them has them. If we kept one, with its traceback, it would keep us.
            self.token.forget(errors)
            body.forget_task()
            del errors, last, error, stop
