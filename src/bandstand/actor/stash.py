"""A stash: messages that an actor has put aside, to be handled when it can.

    class Client(Actor):
        def __init__(self) -> None:
            self._ready = False
            self._early = Stash(self)

        @ask
        def fetch(self, key: str) -> bytes:
            if not self._ready:
                self._early.keep()
            return self._store[key]

        @data
        def connected(self) -> None:
            self._ready = True
            self._early.release()

`keep()` ends the handler: it raises what the kernel alone catches, and so an ask needs no answer made up, and no other message pays.
Refused: a `keep()` that returns, after which a handler would go on with a message that is no longer its own.

What is kept has room of its own, up to the stash's limit, beside the mailbox. Refused: to hold its slot in the mailbox. A lane full
of what is kept would refuse the very message that makes the actor release it.
"""

# An actor keeps what the room needs under private names, to leave users theirs.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn, final

from bandstand.actor.actor import Performer
from bandstand.actor.hot.method import Method
from bandstand.actor.jobs import is_job
from bandstand.core.aside import SetAside
from bandstand.errors import InvalidArgument, LoopBusy, StashFull
from bandstand.errors.formatting import safe_repr

if TYPE_CHECKING:
    from bandstand.actor.hot.handle import Handle

__all__ = ("Stash",)


@final
class _Shelf:
    """What the kernel counts on."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


@final
class Stash:
    """Messages of one actor that wait until it releases them. Made in its `__init__` or `on_start`; it may have several.

    What is kept keeps its deadline, can be cancelled, and gets `TargetEnded` if the actor ends: then it shares the fate of what
    waits in the mailbox, and goes before it.

    Args:
        actor: whose it is: `self`.
        limit: how many messages it holds.

    Raises:
        InvalidArgument: that is no actor's object, or no limit.
    """

    __slots__ = ("_actor", "_limit", "_shelf")

    def __init__(self, actor: Performer, limit: int = 100) -> None:
        if not isinstance(actor, Performer):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"a stash is an actor's own: pass self, not {safe_repr(actor)}")
        if type(limit) is not int or not 1 <= limit <= 1_000_000:
            raise InvalidArgument(
                f"limit is {safe_repr(limit)}: pass a number of messages, from 1 to 1,000,000"
            )
        self._actor = actor
        self._limit = limit
        self._shelf = _Shelf()

    @property
    def limit(self) -> int:
        """How many messages it holds at most."""
        return self._limit

    def __len__(self) -> int:
        return self._shelf.count

    def keep(self) -> NoReturn:
        """Put the message at hand aside, and end its handler here: nothing after this line runs, but `finally` does.

        It is neither handled nor answered. In an `async def` call it in the handler's own body, in no task group.

        Raises:
            StashFull: it holds as many as it may. Unless the handler catches it, the actor fails.
            LoopBusy: the actor handles no message of a method at this moment: in a timer's call, in a hook, out of turn, ending.
                Or it handles a list of them.
            WrongThread: called off the loop's thread.
        """
        me = self._handle()
        method = me._bs_loop._tag_at_hand(me._bs_actor)
        if not isinstance(method, Method):
            raise LoopBusy(
                f"{me!r} handles no message in its turn that could be kept: call keep() in the handler of one, not in a hook, in work "
                f"beside it, or in a handler that is called out of turn"
            )
        if is_job(method):
            raise LoopBusy(
                f"{me!r} is in a call of a timer or of its own work, which is no message to be kept"
            )
        if method.limit > 0:
            raise LoopBusy(
                f"{method.owner}.{method.name}() of {me!r} takes a list, which cannot be kept: hold what is in it in the actor, or let "
                f"the method take one"
            )
        if self._shelf.count >= self._limit:
            raise StashFull(
                f"the stash of {me!r} holds {self._limit} messages, and cannot keep {method.owner}.{method.name}() as well: release "
                f"them sooner, give it a higher limit, or catch this and answer otherwise"
            )
        raise SetAside(self._shelf)

    def release(self) -> int:
        """Put all back to the front of their lanes, in the order they were kept, before what waits; how many they were.

        They are handled as if they came now, after the present handler has ended. For that they pass the mailbox's limit, if
        they must.

        Raises:
            LoopBusy: the object is not running as an actor.
            WrongThread: called off the loop's thread.
        """
        me = self._handle()
        count: int = me._bs_loop._take_back(me._bs_actor, self._shelf)
        return count

    def _handle(self) -> Handle:
        me: Handle = self._actor._bs_handle()
        me._bs_loop._check_thread()
        return me

    def __repr__(self) -> str:
        return f"<Stash with {self._shelf.count} of {self._limit} messages>"
