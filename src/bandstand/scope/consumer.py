"""The work of a channel actor: a channel, and what to do with each of its elements. Each incarnation begins it anew."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar, cast, final

from bandstand.core import ActorId, Behavior, Context, ExitReason, Loop, Verdict
from bandstand.core.lifelines import mourn, set_budget
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.scope.channel import Channel
from bandstand.scope.checks import check_token
from bandstand.scope.hot.feeding import Fed, Feed, consume_one

if TYPE_CHECKING:
    from bandstand.scope.token import CancelToken

__all__ = ("Consumer", "Ended", "Process", "check_work")

T = TypeVar("T")

Process: TypeAlias = Callable[[T], Verdict | None] | Callable[[T], Coroutine[Any, Any, Verdict | None]]
"""What is done with an element: a function, or a coroutine function. It returns what a behavior returns."""

Ended: TypeAlias = Callable[[Feed, ExitReason, BaseException | None], object]


def check_work(channel: object, process: object) -> None:
    """Refuse what cannot be consumed, or called.

    Raises:
        InvalidArgument: so it is.
    """
    if not isinstance(channel, Channel):
        raise InvalidArgument(f"channel is {safe_repr(channel)}: pass a Channel")
    if not callable(process):
        raise InvalidArgument(f"process is {safe_repr(process)}: pass a function of one element")


@final
class Consumer(Generic[T]):
    """What a supervisor needs for a child that consumes a channel.

        work = Consumer(orders, handle)
        ChildSpec("orders", run=work.run, init=work.init, mode=ChildMode.TRANSIENT)

    Every incarnation goes on with the next element. The element at which one has failed was received, and is not processed
    again. The end of the channel, or of the token, is a normal end: a TRANSIENT child is not started again after it, while a
    PERMANENT one would be, in vain, until its supervisor gives up.

    Args:
        channel: what to consume. Several may consume the same one: each element goes to one of them.
        process: what to do with each element.
        token: what ends it as well, whatever it is doing.

    Raises:
        InvalidArgument: an argument has no sense.
    """

    __slots__ = ("_process", "_token", "channel")

    def __init__(self, channel: Channel[T], process: Process[T], *, token: CancelToken | None = None) -> None:
        check_work(channel, process)
        if token is not None:
            check_token(token)
        self.channel = channel
        self._process = process
        self._token = token

    @property
    def run(self) -> Behavior[Fed]:
        """The behavior: `ChildSpec(run=...)`."""
        return cast("Behavior[Fed]", consume_one)

    def init(self, ctx: Context[Fed], *_arguments: object) -> Fed:
        """What each incarnation begins with: `ChildSpec(init=...)`. It takes what a dynamic supervisor gives, and ignores it."""
        return Fed(self.begin(ctx.loop, ctx.self_id, None))

    def begin(self, loop: Loop, actor: ActorId, ended: Ended | None) -> Feed:
        """The same, with somebody to be told of the end: inside of it, so it must not raise."""
        feed = Feed(self.channel, self._process, loop, actor)
        token = self._token

        def told(reason: ExitReason, cause: BaseException | None) -> None:
            feed.end()
            if token is not None:
                token.dismiss(feed)
            if ended is not None:
                ended(feed, reason, cause)

        mourn(loop, actor, told)
        # One element a visit: then it is the next actor's turn.
        set_budget(loop, actor, 1)
        feed.prod()
        if token is not None and actor.is_alive:
            # The last thing: it may be cancelled already, and then the actor ends here.
            token.enlist(feed)
        return feed
