"""The loop: actors, spawned and watched, and a voice to report in.

What is hot lives at the bottom, in the compiled kernel; how a loop is driven and stopped is in `hosted`, descriptors are
in `watching`, what supervisors need is in `parenting`. Here is the top: the observer, the statistics, and the words in the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, NoReturn, TypeVar

from bandstand.core.clock import Clock, MonotonicClock
from bandstand.core.config import LoopConfig
from bandstand.core.enums import MAX_LOOP_TAG, ExitReason
from bandstand.core.events import RuntimeEvents, Stalled
from bandstand.core.ids import ActorId
from bandstand.core.logs import SafeLogger, repeated
from bandstand.core.observer import hooks_of, merge_hooks
from bandstand.core.parenting import Parenting
from bandstand.core.stats import Statistics
from bandstand.errors import InvalidArgument, LoopBusy, StartFailed
from bandstand.errors.formatting import safe_repr

__all__ = ("Loop",)

State = TypeVar("State")

logger = SafeLogger("bandstand.core")

_loops = count()


class Loop(Parenting):
    """A single-threaded loop of actors.

    One thread owns it: the one that made it, until it is run, then the one that runs it. Every call but `send_async` and
    `request_stop` belongs on that thread and raises `WrongThread` elsewhere.

    Args:
        config: its limits; None for the defaults.
        clock: where its time comes from; None for the machine's monotonic clock.
    """

    def __init__(self, config: LoopConfig | None = None, *, clock: Clock | None = None) -> None:
        if hasattr(self, "_observed"):
            raise LoopBusy("the loop was made already: __init__() cannot be called again, make another Loop")
        config = LoopConfig() if config is None else config
        if not isinstance(config, LoopConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"config is {safe_repr(config)}: pass a LoopConfig")
        clock = MonotonicClock() if clock is None else clock
        now = getattr(clock, "now_ns", None)
        reading = now() if callable(now) else None
        if type(reading) is not int or abs(reading) >= 1 << 62:
            raise InvalidArgument(
                f"clock is {safe_repr(clock)}: pass an object whose now_ns() gives nanoseconds as a 64-bit int"
            )
        # Tags are given out in turn. An id object knows its loop itself; only bare numbers could ever be taken for
        # those of a loop made 65,535 loops later.
        self._observed: dict[str, Callable[..., Any] | None] = {}
        super().__init__(next(_loops) % MAX_LOOP_TAG + 1, config, clock)
        self._newsroom = RuntimeEvents(self, logger, clock)
        self._farewells: dict[object, Callable[[], object]] = {}  # who wants to know that the loop ends

    # -- what happens ----------------------------------------------------------------------------------------------------

    def set_observer(self, observer: object | None) -> None:
        """Have `observer` hear of what happens; None for nobody. See `Observer` for the hooks.

        Raises:
            InvalidArgument: it has no hook, or one of an unknown name.
            WrongThread: called off the loop's thread.
        """
        self._check_thread()
        self._observed = {} if observer is None else hooks_of(observer)
        self._wire()

    @property
    def events(self) -> RuntimeEvents:
        """What the runtime tells of itself: `loop.events.listen(function)`, `loop.events.counts()`."""
        return self._newsroom

    def _wire(self) -> None:
        """Have the kernel call just those who listen: the observer, and whoever hears of events."""
        if self._down:
            return
        hooks = merge_hooks(self._newsroom.hooks(), self._observed)
        self._set_hooks(
            hooks.get("on_actor_start"),
            hooks.get("on_actor_stop"),
            hooks.get("on_mailbox_full"),
            hooks.get("on_dead_letter"),
            hooks.get("on_dropped"),
        )
        self._on_restart = hooks.get("on_actor_restart")
        self._on_escalate = hooks.get("on_supervisor_escalate")

    def _forget_hooks(self) -> None:
        self._newsroom.close()
        self._observed = {}
        super()._forget_hooks()

    def statistics(self) -> Statistics:
        """A frozen snapshot of the books. Loop thread only."""
        self._check_thread()
        books = self._books()
        wakeups = self._past_wakeups + (0 if self._host is None else self._host.wakeups)
        return Statistics(**books, wakeups=wakeups)

    def _at_end(self, told: Callable[[], object]) -> Callable[[], None]:
        """Have somebody told when all actors were ended; what takes that back."""
        key = object()
        self._farewells[key] = told

        def forget() -> None:
            self._farewells.pop(key, None)

        return forget

    def _end_actors(self) -> None:
        super()._end_actors()
        while self._farewells:
            told = self._farewells.pop(next(iter(self._farewells)))
            try:
                told()
            except Exception as error:  # noqa: BLE001  # whatever it is, the others are told as well
                self._complain(f"{safe_repr(told)}, told of the end of the loop, raised", error)

    # -- what it says -------------------------------------------------------------------------------------------------

    def _gossip(self, *, is_last: bool = False) -> None:
        is_all = self._newsroom.update_log(
            self._dead - self._dead_system, self._dropped - self._dropped_system, force=is_last
        )
        self._mentioned = self._dead + self._dropped if is_all else -1

    def _what(self, data: object, tag: object) -> str:  # noqa: ARG002  # the tags of the storeys above say more
        """A message in a word, for people."""
        return type(data).__qualname__

    def _note_stall(self, actor: ActorId, name: str | None, message: object) -> str:
        what = self._what(message, self._tag_of(actor))
        stalled = Stalled(actor, name, what, self.config.stall_ms or 0.0)
        self._call_afar(partial(self._newsroom.tell, stalled))
        return what

    def _complain(self, what: str, error: BaseException) -> None:
        logger.error("%s; the loop goes on", what, exc_info=error)

    def _report_exit(
        self, actor: ActorId, name: str | None, reason: int, cause: BaseException | None, dead: int
    ) -> None:
        # By its type: isinstance() asks the exception for its __class__, which may raise.
        if issubclass(type(cause), StartFailed) or (cause is not None and cause is self._broken):
            # It is raised, to whoever asked for the start, or to whoever runs the loop.
            return
        count = self._newsroom.admit_crash(f"actor {name}", cause)
        if count:
            logger.error(
                "actor %r %s ended with reason %s and no supervisor hears of it; %d of its messages became dead letters%s",
                actor,
                name or "(unnamed)",
                ExitReason(reason).name,
                dead,
                repeated(count),
                exc_info=cause,
                is_known=count > 1,
            )

    def _wrong_thread(self) -> str:
        return (
            f"this call belongs on the loop's own thread {self._owner_thread.name!r}, not on "
            f"{threading.current_thread().name!r}; from other threads only send_async(), request_stop() and the handles of typed actors can be used"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{self!r} cannot be pickled or copied")

    def __repr__(self) -> str:
        state = "destroyed" if self._is_destroyed else "closed" if self._closed else "open"
        return f"<Loop {state} at {hex(id(self))}>"
