"""The phases of pods: every transition is told, in order, to whoever wants to hear of it, and is one line in the log.

    async for event in troupe.phases:
        print(event.pod, event.phase, event.reason)

Telling never waits for those who listen. Each function is called on a thread of its own, which is there while there is something to
tell it; a stream keeps what its reader has not taken yet, however much that is.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock, Thread, current_thread
from types import MappingProxyType
from typing import Self, final
from weakref import WeakSet, ref

from bandstand.core.logs import SafeLogger
from bandstand.errors import ChannelClosed, InternalError, InvalidArgument
from bandstand.pod.vocabulary import PodPhase
from bandstand.scope import UNBOUNDED, Channel, Operation

__all__ = ("FOLLOWS", "PhaseStream", "Phases", "PodEvent")

logger = SafeLogger("bandstand.pod")

MOST_WAITING = 10_000
"""How many events wait at most for a function that is slow."""

FOLLOWS: Mapping[PodPhase, frozenset[PodPhase]] = MappingProxyType(
    {
        # One that is not up yet can be stopped, or fail to start.
        PodPhase.PENDING: frozenset(
            {PodPhase.RUNNING, PodPhase.TERMINATING, PodPhase.COMPLETED, PodPhase.FAILED}
        ),
        PodPhase.RUNNING: frozenset({PodPhase.TERMINATING, PodPhase.COMPLETED, PodPhase.FAILED}),
        PodPhase.TERMINATING: frozenset({PodPhase.COMPLETED, PodPhase.FAILED}),
        PodPhase.COMPLETED: frozenset({PodPhase.PENDING}),
        PodPhase.FAILED: frozenset({PodPhase.PENDING}),
    }
)
"""Which phases a phase can be followed by."""


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One transition of one pod."""

    pod: str
    phase: PodPhase
    """The phase that it is in now."""
    reason: str
    """Why, in a sentence; often empty."""
    number: int
    """Of which incarnation, from 1 on."""
    at: float
    """When, in seconds since the epoch."""
    since_start: float
    """When, in seconds since the troupe was made; never runs backwards."""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"pod {self.pod!r} #{self.number} is {self.phase.value}{why}"


@final
class PhaseStream:
    """What happens from now on, one event after the other: `async for event in stream`, or `stream.receive()`.

    Ends when the troupe is over, or by `close()`. One that nobody has any more is forgotten.
    """

    __slots__ = ("__weakref__", "_channel")

    def __init__(self) -> None:
        self._channel = Channel[PodEvent](UNBOUNDED, name="phases")

    def receive(self, *, timeout_ms: float | None = None) -> Operation[PodEvent]:
        """The next event: to be awaited, or waited for on a plain thread with `.blocking()`.

        Raises:
            ChannelTimeout: there was none in time.
            ChannelClosed: there will be none any more.
        """
        return self._channel.receive(timeout_ms=timeout_ms)

    def close(self) -> None:
        """Hear nothing more. What has happened already can still be received."""
        self._channel.close()

    def tell(self, event: PodEvent) -> None:
        """Have it be received."""
        _offer(self._channel, event)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Operation[PodEvent]:
        return self._channel.__anext__()


@final
class _Listener:
    """A function that is called with each event, in order, on a thread of its own. From any thread.

    The thread ends when there is nothing to tell, so nobody has to end it. One that is stuck in the function does not keep the
    interpreter alive.

    Args:
        callback: the function.
    """

    __slots__ = ("_events", "_lock", "_lost", "_thread", "callback", "is_off")

    def __init__(self, callback: Callable[[PodEvent], object]) -> None:
        self.callback = callback
        self.is_off = False
        """Whether it was taken back: it is not called any more."""
        self._lock = Lock()
        self._events: deque[PodEvent] = deque()
        self._lost = 0
        self._thread: Thread | None = None

    def tell(self, event: PodEvent) -> None:
        """Have the function called with an event, after those before it."""
        with self._lock:
            if len(self._events) >= MOST_WAITING:
                self._events.popleft()
                self._lost += 1
            self._events.append(event)
            if self._thread is not None:
                return
            thread = self._thread = Thread(target=self._run, name="bandstand phases", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            with self._lock:
                self._thread = None
            logger.warning("%r is called later, with the next event: %s", self.callback, error)

    def join(self, seconds: float) -> None:
        """Wait until it was called with all events so far, at most so long; not on its own thread."""
        thread = self._thread
        if thread is not None and thread is not current_thread():
            # One that was made just now may not have been started: then it has nothing to wait for either.
            with suppress(RuntimeError):
                thread.join(seconds)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._events:
                    self._thread = None
                    return
                event = self._events.popleft()
                lost, self._lost = self._lost, 0
            if lost:
                logger.warning(
                    "%r is too slow: it was not called with %d events before %s", self.callback, lost, event
                )
            if self.is_off:
                continue
            try:
                self.callback(event)
            except (
                BaseException
            ):  # an exit, too, is nothing but the function's own: nobody is here to hear of it
                logger.exception("%r raised, called with %s; everything else goes on", self.callback, event)


@final
class Phases:
    """The phases of a troupe's pods, now and so far. From any thread.

    Args:
        pods: their names.
        keep: how many events are remembered; each pod's present phase always is.
    """

    def __init__(self, pods: Iterable[str], *, keep: int = 1000) -> None:
        self._lock = Lock()
        self._began = time.monotonic()
        now = time.time()
        self._present = {name: PodEvent(name, PodPhase.PENDING, "", 0, now, 0.0) for name in pods}
        self._history: deque[PodEvent] = deque(maxlen=keep)
        # Never changed, but replaced: who calls them goes through those there were when it began.
        self._callbacks: Mapping[object, Callable[[PodEvent], object]] = {}
        self._listeners: tuple[_Listener, ...] = ()
        self._streams: WeakSet[PhaseStream] = WeakSet()
        self._waits: WeakSet[Channel[PodEvent]] = WeakSet()
        # Events that were not told yet, and whether somebody is telling.
        self._untold: deque[PodEvent] = deque()
        self._is_telling = False
        self._is_closed = False

    @property
    def history(self) -> tuple[PodEvent, ...]:
        """What has happened so far, the oldest first; of a long life, the last part."""
        with self._lock:
            return tuple(self._history)

    def of(self, pod: str) -> PodEvent:
        """The last thing that happened to a pod; before anything has, it is PENDING with the number 0.

        Raises:
            InvalidArgument: there is no such pod.
        """
        event = self._present.get(pod)
        if event is None:
            raise InvalidArgument(f"there is no pod {pod!r}: there is {', '.join(self._present) or 'none'}")
        return event

    def listen(self, callback: Callable[[PodEvent], object]) -> Callable[[], None]:
        """Have a function called with each event from now on, in order; what is returned takes it back.

        It is called on a thread of its own, a moment later, one event at a time. It may wait: nothing but its own next call waits
        for it. If more than 10,000 events wait for it, the oldest are lost, and the log says so. What it raises is logged.
        """
        listener = _Listener(callback)
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return partial(self._dismiss, listener)

    def stream(self) -> PhaseStream:
        """What happens from now on. `async for event in troupe.phases` is the same."""
        stream = PhaseStream()
        with self._lock:
            self._streams.add(stream)
            is_closed = self._is_closed
        if is_closed:
            stream.close()
        return stream

    __aiter__ = stream

    def until(
        self, pod: str, *phases: PodPhase, number: int = 0, timeout_ms: float | None = None
    ) -> Operation[PodEvent]:
        """The first event, from the present phase on, by which a pod is in one of these phases: to be awaited, or `.blocking()`.

        Args:
            pod: its name.
            phases: which; any, if none is named.
            number: of this incarnation, or a later one.
            timeout_ms: how long to wait at most; None for ever.

        Raises:
            InvalidArgument: there is no such pod.
            ChannelTimeout: it was in none of them in time.
            ChannelClosed: the troupe is over.
        """
        first = Channel[PodEvent](1, name=f"phases of {pod!r}")
        # Who has waited in vain is forgotten.
        remembered = ref(first)

        def look(event: PodEvent) -> None:
            channel = remembered()
            is_meant = event.pod == pod and event.number >= number and (not phases or event.phase in phases)
            if channel is None or is_meant:
                self._forget(mark)
            if channel is not None and is_meant:
                _offer(channel, event)

        with self._lock:
            self._waits.add(first)
            is_closed = self._is_closed
        mark = object()
        self._remember(mark, look)
        look(self.of(pod))
        if is_closed:
            # Nothing will be told any more.
            self._forget(mark)
            first.close()
        return first.receive(timeout_ms=timeout_ms)

    def tell(self, pod: str, phase: PodPhase, reason: str = "", *, number: int) -> PodEvent:
        """Say that a pod is in another phase. For the kubelet.

        If another thread is telling at this moment, it also tells this.

        Raises:
            InvalidArgument: there is no such pod.
            InternalError: a phase cannot follow the one it is said to follow.
        """
        with self._lock:
            before = self.of(pod)
            # The first life of all may begin with whatever it does.
            if before.number and phase not in FOLLOWS[before.phase]:
                raise InternalError(f"pod {pod!r} cannot be {phase.value} after it was {before.phase.value}")
            event = PodEvent(pod, phase, reason, number, time.time(), time.monotonic() - self._began)
            self._present[pod] = event
            self._history.append(event)
            self._untold.append(event)
            if self._is_telling:
                return event
            self._is_telling = True
        self._tell_all()
        return event

    def close(self) -> None:
        """The troupe is over: streams end when they are read to their end."""
        with self._lock:
            self._is_closed = True
            streams, waits = list(self._streams), list(self._waits)
        for stream in streams:
            stream.close()
        for wait in waits:
            wait.close()

    def join(self, seconds: float) -> None:
        """Wait until all functions were called with what has happened so far; for each at most so long."""
        for listener in self._listeners:
            listener.join(seconds)

    def _dismiss(self, listener: _Listener) -> None:
        listener.is_off = True
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def _remember(self, mark: object, callback: Callable[[PodEvent], object]) -> None:
        with self._lock:
            self._callbacks = {**self._callbacks, mark: callback}

    def _forget(self, mark: object) -> None:
        with self._lock:
            self._callbacks = {
                each: callback for each, callback in self._callbacks.items() if each is not mark
            }

    def _tell_all(self) -> None:
        while True:
            with self._lock:
                if not self._untold:
                    self._is_telling = False
                    return
                event = self._untold.popleft()
                callbacks, streams, listeners = self._callbacks, list(self._streams), self._listeners
            try:
                _log(event)
                for stream in streams:
                    stream.tell(event)
                # Those who wait for a phase: ours, and short.
                for callback in callbacks.values():
                    callback(event)
                for listener in listeners:
                    listener.tell(event)
            except BaseException:  # Ctrl-C, or an exit: it goes on, and whoever tells next tells the rest
                with self._lock:
                    self._is_telling = False
                raise


def _offer(channel: Channel[PodEvent], event: PodEvent) -> None:
    """Have it be received, unless the reader wants nothing more."""
    with suppress(ChannelClosed):
        channel.try_send(event)


def _log(event: PodEvent) -> None:
    """One line for each transition. The fields are on the record, too, for programs."""
    logger.log(
        logging.WARNING if event.phase is PodPhase.FAILED else logging.INFO,
        "%s",
        event,
        extra={
            "pod": event.pod,
            "phase": event.phase.value,
            "reason": event.reason,
            "number": event.number,
        },
    )
