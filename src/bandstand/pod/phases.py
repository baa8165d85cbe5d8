"""The phases of pods: every transition is published in order, to callbacks, streams and waiters, and logged as one line.

    async for event in troupe.phases:
        print(event.pod, event.phase, event.reason)

Publishing never waits for a subscriber. Each callback runs on its own thread, which exists only while events are pending. A stream
buffers events without a limit until its reader takes them.
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
from bandstand.errors import ChannelClosedError, InternalError, InvalidArgumentError
from bandstand.errors.validation import Seconds
from bandstand.pod.enums import PodPhase
from bandstand.scope import UNBOUNDED, Channel, Operation

__all__ = ("TRANSITIONS", "PhaseStream", "Phases", "PodEvent")

logger = SafeLogger("bandstand.pod")

MAX_PENDING_EVENTS = 10_000
"""How many events are kept for a slow callback. Over the limit, the oldest are dropped."""

TRANSITIONS: Mapping[PodPhase, frozenset[PodPhase]] = MappingProxyType(
    {
        # A pod that does not run yet can be stopped, or fail to start.
        PodPhase.PENDING: frozenset(
            {PodPhase.RUNNING, PodPhase.TERMINATING, PodPhase.COMPLETED, PodPhase.FAILED}
        ),
        PodPhase.RUNNING: frozenset({PodPhase.TERMINATING, PodPhase.COMPLETED, PodPhase.FAILED}),
        PodPhase.TERMINATING: frozenset({PodPhase.COMPLETED, PodPhase.FAILED}),
        PodPhase.COMPLETED: frozenset({PodPhase.PENDING}),
        PodPhase.FAILED: frozenset({PodPhase.PENDING}),
    }
)
"""Which phases can follow a phase."""


@dataclass(frozen=True, slots=True)
class PodEvent:
    """One transition of one pod."""

    pod: str
    phase: PodPhase
    """The phase that the pod is in now."""
    reason: str
    """Why; often empty."""
    number: int
    """The number of the incarnation, from 1."""
    at: float
    """When, in seconds since the epoch."""
    since_start: float
    """When, in seconds since the troupe object was made, on a monotonic clock."""

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ""
        return f"pod {self.pod!r} #{self.number} is {self.phase.value}{why}"


@final
class PhaseStream:
    """The events from now on: `async for event in stream`, or `stream.receive()`.

    It ends when the troupe has ended, or after `close()`. `Phases` holds only a weak reference to it.
    """

    __slots__ = ("__weakref__", "_channel")

    def __init__(self) -> None:
        self._channel = Channel[PodEvent](UNBOUNDED, name="phases")

    def receive(self, *, timeout: Seconds | None = None) -> Operation[PodEvent]:
        """Receive the next event: await the operation, or call `.blocking()` on a plain thread.

        Raises:
            ChannelTimeoutError: there was no event in time.
            ChannelClosedError: there will be no more events.
        """
        return self._channel.receive(timeout=timeout)

    def close(self) -> None:
        """End the subscription. Events that were published before can still be received."""
        self._channel.close()

    def publish(self, event: PodEvent) -> None:
        """Add an event. Called by `Phases`."""
        _offer(self._channel, event)

    def __aiter__(self) -> Self:
        return self

    def __anext__(self) -> Operation[PodEvent]:
        return self._channel.__anext__()


@final
class _Listener:
    """Calls a function with each event, in order, on its own thread. Thread-safe.

    The thread ends when no events are pending, so it needs no stop. It is a daemon: a callback that hangs does not keep the
    interpreter alive.
    """

    __slots__ = ("_dropped", "_events", "_lock", "_thread", "callback", "is_removed")

    def __init__(self, callback: Callable[[PodEvent], object]) -> None:
        self.callback = callback
        self.is_removed = False
        """Whether the subscription has ended: the callback is not called any more."""
        self._lock = Lock()
        self._events: deque[PodEvent] = deque()
        self._dropped = 0
        self._thread: Thread | None = None

    def publish(self, event: PodEvent) -> None:
        """Call the function with an event, after the pending ones."""
        with self._lock:
            if len(self._events) >= MAX_PENDING_EVENTS:
                self._events.popleft()
                self._dropped += 1
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

    def join(self, timeout_s: float) -> None:
        """Wait until the function was called with all pending events. Does nothing on its own thread."""
        thread = self._thread
        if thread is not None and thread is not current_thread():
            # RuntimeError: another thread has just made it and not started it yet.
            with suppress(RuntimeError):
                thread.join(timeout_s)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._events:
                    self._thread = None
                    return
                event = self._events.popleft()
                dropped, self._dropped = self._dropped, 0
            if dropped:
                logger.warning(
                    "%r is too slow: it was not called with %d events before %s",
                    self.callback,
                    dropped,
                    event,
                )
            if self.is_removed:
                continue
            try:
                self.callback(event)
            except BaseException:  # SystemExit too: nothing above this frame could handle it
                logger.exception("%r raised when it was called with %s", self.callback, event)


@final
class Phases:
    """The phases of a troupe's pods: current, past and future. Thread-safe.

    Args:
        pods: the names of the pods.
        keep: how many events `history` holds. The current phase of each pod is always known.
    """

    def __init__(self, pods: Iterable[str], *, keep: int = 1000) -> None:
        self._lock = Lock()
        self._began = time.monotonic()
        now = time.time()
        self._current = {name: PodEvent(name, PodPhase.PENDING, "", 0, now, 0.0) for name in pods}
        self._history: deque[PodEvent] = deque(maxlen=keep)
        # Replaced, never changed: the publishing thread iterates over a snapshot.
        self._waiters: Mapping[object, Callable[[PodEvent], object]] = {}
        self._listeners: tuple[_Listener, ...] = ()
        self._streams: WeakSet[PhaseStream] = WeakSet()
        self._wait_channels: WeakSet[Channel[PodEvent]] = WeakSet()
        # Events to publish, and whether a thread is publishing them.
        self._pending: deque[PodEvent] = deque()
        self._is_publishing = False
        self._is_closed = False

    @property
    def history(self) -> tuple[PodEvent, ...]:
        """The last events, oldest first."""
        with self._lock:
            return tuple(self._history)

    def of(self, pod: str) -> PodEvent:
        """Return the last event of a pod. Before its first event, it is PENDING with number 0.

        Raises:
            InvalidArgumentError: there is no such pod.
        """
        event = self._current.get(pod)
        if event is None:
            raise InvalidArgumentError(
                f"there is no pod {pod!r}: there is {', '.join(self._current) or 'none'}"
            )
        return event

    def listen(self, callback: Callable[[PodEvent], object]) -> Callable[[], None]:
        """Call a function with each event from now on, in order. Call the returned function to end that.

        The callback runs on its own thread, one event at a time. It may block: that delays only its own next call. If more than
        10,000 events are pending for it, the oldest are dropped, and a warning is logged. An exception that it raises is logged.
        """
        listener = _Listener(callback)
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return partial(self._remove_listener, listener)

    def stream(self) -> PhaseStream:
        """Return a stream of the events from now on. `async for event in troupe.phases` makes one too."""
        stream = PhaseStream()
        with self._lock:
            self._streams.add(stream)
            is_closed = self._is_closed
        if is_closed:
            stream.close()
        return stream

    __aiter__ = stream

    def until(
        self, pod: str, *phases: PodPhase, number: int = 0, timeout: Seconds | None = None
    ) -> Operation[PodEvent]:
        """Wait until a pod is in one of these phases: await the operation, or call `.blocking()`. It may be in one already.

        Args:
            pod: the name of the pod.
            phases: the phases to wait for; none for any event.
            number: the lowest incarnation number to wait for.
            timeout: how long to wait, in seconds; None for no timeout.

        Returns:
            The event by which the pod came into the phase.

        Raises:
            InvalidArgumentError: there is no such pod.
            ChannelTimeoutError: it was in none of them in time.
            ChannelClosedError: the troupe has ended.
        """
        channel = Channel[PodEvent](1, name=f"phases of {pod!r}")
        # Weak, so that a waiter that has given up is collected.
        weak_channel = ref(channel)

        def match(event: PodEvent) -> None:
            target = weak_channel()
            is_match = event.pod == pod and event.number >= number and (not phases or event.phase in phases)
            if target is None or is_match:
                self._remove_waiter(key)
            if target is not None and is_match:
                _offer(target, event)

        with self._lock:
            self._wait_channels.add(channel)
            is_closed = self._is_closed
        key = object()
        self._add_waiter(key, match)
        match(self.of(pod))
        if is_closed:
            # There will be no more events.
            self._remove_waiter(key)
            channel.close()
        return channel.receive(timeout=timeout)

    def publish(self, pod: str, phase: PodPhase, reason: str = "", *, number: int) -> PodEvent:
        """Record that a pod is in another phase, and publish the event. Called by the kubelet.

        If another thread is publishing at the moment, that thread publishes this event too.

        Raises:
            InvalidArgumentError: there is no such pod.
            InternalError: the phase cannot follow the current one.
        """
        with self._lock:
            before = self.of(pod)
            # The very first event of a pod may be of any phase.
            if before.number and phase not in TRANSITIONS[before.phase]:
                raise InternalError(f"pod {pod!r} cannot be {phase.value} after it was {before.phase.value}")
            event = PodEvent(pod, phase, reason, number, time.time(), time.monotonic() - self._began)
            self._current[pod] = event
            self._history.append(event)
            self._pending.append(event)
            if self._is_publishing:
                return event
            self._is_publishing = True
        self._publish_pending()
        return event

    def close(self) -> None:
        """End all streams and waits, because the troupe has ended. Buffered events can still be received."""
        with self._lock:
            self._is_closed = True
            streams, channels = list(self._streams), list(self._wait_channels)
        for stream in streams:
            stream.close()
        for channel in channels:
            channel.close()

    def join(self, timeout_s: float) -> None:
        """Wait until all callbacks were called with all events so far, at most this long for each."""
        for listener in self._listeners:
            listener.join(timeout_s)

    def _remove_listener(self, listener: _Listener) -> None:
        listener.is_removed = True
        with self._lock:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def _add_waiter(self, key: object, match: Callable[[PodEvent], object]) -> None:
        with self._lock:
            self._waiters = {**self._waiters, key: match}

    def _remove_waiter(self, key: object) -> None:
        with self._lock:
            self._waiters = {each: match for each, match in self._waiters.items() if each is not key}

    def _publish_pending(self) -> None:
        while True:
            with self._lock:
                if not self._pending:
                    self._is_publishing = False
                    return
                event = self._pending.popleft()
                waiters, streams, listeners = self._waiters, list(self._streams), self._listeners
            try:
                _log(event)
                for stream in streams:
                    stream.publish(event)
                for match in waiters.values():
                    match(event)
                for listener in listeners:
                    listener.publish(event)
            except BaseException:  # Ctrl-C or SystemExit: re-raise, and leave the rest to the next publisher
                with self._lock:
                    self._is_publishing = False
                raise


def _offer(channel: Channel[PodEvent], event: PodEvent) -> None:
    """Send an event, unless the reader has closed the channel."""
    with suppress(ChannelClosedError):
        channel.try_send(event)


def _log(event: PodEvent) -> None:
    """Log a transition. The record has the fields of the event as attributes."""
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
