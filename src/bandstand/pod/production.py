"""What is behind a troupe object: its kubelet, its outside, the troupes inside it, and how their ends are waited for."""

# The troupes inside are of its own kind.
# pyright: reportPrivateUsage=false
# ruff: noqa: SLF001  # likewise

from __future__ import annotations

import asyncio
import atexit
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from bandstand.actor.cross_thread import is_plain_thread
from bandstand.core.logs import SafeLogger
from bandstand.errors import InvalidArgument, LoopBusy, PodFailed, PodTimeout
from bandstand.errors.formatting import safe_str
from bandstand.pod.books import PodBooks
from bandstand.pod.cast import Cast
from bandstand.pod.directory import Directory
from bandstand.pod.ending import Ending
from bandstand.pod.forks import call_in_forks
from bandstand.pod.kubelet import Kubelet
from bandstand.pod.lookout import books_of, health_of, status_of
from bandstand.pod.nest import Nest
from bandstand.pod.passport import TroupeIdentity
from bandstand.pod.phases import Phases
from bandstand.pod.process import check_guarded
from bandstand.pod.settled import settled
from bandstand.pod.shutdown import KILL_S
from bandstand.pod.stack import stack_of
from bandstand.pod.stages import OutsideStage
from bandstand.pod.travel import address_of
from bandstand.pod.vocabulary import PodPhase

if TYPE_CHECKING:
    from bandstand.pod.health import Health
    from bandstand.pod.link import Undelivered
    from bandstand.pod.nested import NestedSpec
    from bandstand.pod.spec import PodSpec
    from bandstand.pod.status import TroupeStatus

__all__ = ("Production",)

logger = SafeLogger("bandstand.pod")

# How long stopping may take at the exit of the interpreter, when somebody has forgotten it.
EXIT_MS = 2000.0
# How much longer than its time the end of a troupe is waited for: its kubelet may be stuck.
PATIENCE_S = 2 * KILL_S + 3.0


class Production(Cast):
    """A troupe object without its face. `Troupe` is what to use."""

    def __init__(self, *, layout: Mapping[str, PodSpec] | None = None) -> None:
        plan = self._planned(layout)
        # The class's own spec is shared by all its objects; each of them is a troupe of its own.
        identity = TroupeIdentity(plan.spec.name)
        self._plan = replace(plan, spec=replace(plan.spec, identity=identity))
        self._phases = Phases(pod.name for pod in self._plan.spec.pods)
        self._mourners: tuple[Callable[[Undelivered], object], ...] = ()
        self._outside = OutsideStage(self._plan.spec, self._lose)
        self._handles: dict[str, Any] = {}  # typed by the declaration
        # A class that can be nested is one that can be played.
        self._inner = {
            each.name: cast("Production", cast("Any", each.troupe)(layout=each.layout))
            for each in self._plan.nested
        }
        self._set_path(plan.spec.name)
        self._lock = threading.Lock()
        self._kubelet: Kubelet | None = None
        # Whether this process is a fork of the one that plays it: its threads and processes are not here.
        self._is_fork = False
        # The books of the kubelets before it, if it is inside another troupe and was started again.
        self._past = PodBooks()
        self._is_inner = False

    @property
    def _title(self) -> str:
        return self._plan.spec.name

    def _set_path(self, path: str) -> None:
        """Name it, and the troupes inside it, by where they are."""
        self._plan.spec.identity.path = path
        for name, each in self._inner.items():
            each._set_path(f"{path}.{name}")

    def _handle(self, name: str) -> Any:  # typed by the declaration
        handle = self._handles.get(name)
        if handle is None:
            handle = self._handles[name] = self._outside.ensemble.handle(name)
        return handle

    def _nested(self, name: str) -> Any:  # likewise
        return self._inner[name]

    # -- its kubelet -----------------------------------------------------------------------------------------------------------

    def _launch(self, *, is_guest: bool = False) -> Kubelet:
        """Begin to play.

        Raises:
            InvalidArgument: it was played before, is another troupe's to play, or is played by a script that a process of
                it is just importing.
        """
        check_guarded(f"troupe {self._title!r}")
        with self._lock:
            if self._is_inner:
                raise InvalidArgument(
                    f"troupe {self._title!r} is inside another one, which plays it: play that"
                )
            if self._kubelet is not None or self._is_fork:
                raise InvalidArgument(f"troupe {self._title!r} has been played: make another one")
            self._outside.is_guest = is_guest
            kubelet = self._new_kubelet()
            call_in_forks(self._after_fork)
        kubelet.over.add_done_callback(lambda _over: self._close("its troupe is over"))
        atexit.register(self._stop_at_exit)
        kubelet.launch()
        return kubelet

    def _new_kubelet(self) -> Kubelet:
        spec = self._plan.spec
        self._kubelet = kubelet = Kubelet(
            spec,
            self._phases,
            self._outside,
            nests={each.name: self._inner[each.name]._nest(each) for each in self._plan.nested},
            is_inner=self._is_inner,
            on_dead=self._lose,
            address=address_of(type(self)) if spec.carries else None,
        )
        return kubelet

    def _nest(self, spec: NestedSpec) -> Nest:
        """What the kubelet of the troupe around needs to know of it."""
        self._is_inner = True
        self._outside.is_guest = True
        return Nest(
            spec=spec,
            outsides=tuple(self._outsides()),
            directory=self._directory(),
            make=self._remake,
            close=self._outside.close,
            stop_ms=self._plan.spec.stop_ms,
        )

    def _outsides(self) -> list[OutsideStage]:
        """Its own, and those of the troupes inside: they outlive its kubelet, which may be started again."""
        return [self._outside, *(outside for each in self._inner.values() for outside in each._outsides())]

    def _directory(self) -> Directory:
        roles = self._plan.spec.visible_to(None)
        handles = {name: self._handle(name) for name in roles}
        return Directory(**handles, **{name: each._directory() for name, each in self._inner.items()})

    def _remake(self) -> Kubelet:
        """A kubelet for its next incarnation, by the troupe around."""
        for pod in self._plan.spec.pods:
            self._outside.ensemble.registry.revive(pod.name)
        if self._kubelet is not None:
            self._past += self._kubelet.closed_books()
        return self._new_kubelet()

    def _close(self, reason: str) -> None:
        """It is over for good. From any thread; the second time nothing happens."""
        atexit.unregister(self._stop_at_exit)
        self._outside.close(reason)
        self._phases.close()
        for each in self._inner.values():
            each._close(reason)

    def _after_fork(self) -> None:
        """This process is a fork of the one that plays it: nothing of it is here, and its handles say so."""
        self._is_fork = True
        self._kubelet = None
        self._lock = threading.Lock()
        atexit.unregister(self._stop_at_exit)
        self._phases = Phases(pod.name for pod in self._plan.spec.pods)
        self._phases.close()
        self._outside.ensemble.registry.abandon(
            f"this process is a fork of the one that plays troupe {self._title!r}: use its handles there"
        )
        for each in self._inner.values():
            each._after_fork()

    # -- waiting ---------------------------------------------------------------------------------------------------------------

    def _refuse_loop_thread(self, what: str) -> None:
        if not is_plain_thread():
            raise LoopBusy(
                f"{what} would block a thread that has an event loop to run: use `async with` there"
            )

    def _wait_up(self, kubelet: Kubelet, ms: float) -> None:
        """Wait until all pods have run.

        Raises:
            PodFailed, PodGone: they will not.
            PodTimeout: they did not in time.
        """
        try:
            kubelet.up.result(ms / 1000)
        except TimeoutError:
            raise self._too_late(ms) from None

    def _too_late(self, ms: float) -> PodTimeout:
        waiting = [
            pod.name for pod in self._plan.spec.pods if self._phases.of(pod.name).phase is PodPhase.PENDING
        ]
        return PodTimeout(
            f"troupe {self._title!r} was not up within {ms:g} ms: {', '.join(waiting) or 'a troupe inside it'} did not run; it was "
            f"stopped"
        )

    def _wait_over(self, kubelet: Kubelet, within_ms: float | None = None) -> None:
        """Wait until everything has ended, on a plain thread.

        Raises:
            PodTimeout: something is stuck.
        """
        if self._is_fork:
            return
        ms = self._plan.spec.stop_ms if within_ms is None else within_ms
        try:
            kubelet.over.result(ms / 1000 + PATIENCE_S)
        except TimeoutError:
            raise self._stuck(kubelet) from None
        self._finish(kubelet)

    def _stuck(self, kubelet: Kubelet) -> PodTimeout:
        atexit.unregister(self._stop_at_exit)
        kubelet.is_left_behind = True
        at = stack_of(kubelet.thread.native_id)
        error = PodTimeout(
            f"troupe {self._title!r} has not ended in time: the thread of its kubelet is stuck{at and f', at {at}'}"
        )
        logger.error("%s", error)
        return error

    async def _leave(self, kubelet: Kubelet) -> None:
        """Stop it, and wait until everything has ended, on an event loop. Whoever is cancelled meanwhile is in a hurry.

        Raises:
            PodTimeout: something is stuck.
        """
        if self._is_fork:
            return
        kubelet.stop()
        cancelled: asyncio.CancelledError | None = None
        over = asyncio.ensure_future(settled(kubelet.over))
        try:
            patience = self._plan.spec.stop_ms / 1000 + PATIENCE_S
            while not over.done() and patience > 0:
                try:
                    await asyncio.wait((over,), timeout=patience)
                    patience = 0
                except asyncio.CancelledError as error:
                    cancelled = error
                    patience = PATIENCE_S
                    kubelet.stop(0)
            self._outside.kill(Ending(PodPhase.COMPLETED, "the troupe is over"))
            if not over.done():
                raise self._stuck(kubelet)
        finally:
            over.cancel()
        self._finish(kubelet)
        if cancelled is not None:
            raise cancelled

    def _finish(self, kubelet: Kubelet) -> None:
        self._close("its troupe is over")
        # Its last act was to say so.
        kubelet.join(KILL_S)
        self._join_listeners()

    def _join_listeners(self) -> None:
        """Have functions that listen be called with everything, unless they are slow."""
        self._phases.join(KILL_S)
        for each in self._inner.values():
            each._join_listeners()

    def _raise_failure(self, error: BaseException | None = None) -> None:
        """Raise what it has failed with; if something else is being raised, that has a note instead."""
        failure: PodFailed | None = None if self._kubelet is None else self._kubelet.failure
        if failure is None:
            return
        if error is None:
            raise failure
        if error is not failure:
            error.add_note(f"Meanwhile troupe {self._title!r} has failed: {safe_str(failure)}")

    def _stop_at_exit(self) -> None:
        kubelet = self._kubelet
        if kubelet is None or kubelet.over.done():
            return
        logger.warning(
            "troupe %r still plays when the program ends, and is stopped: call stop(), or use `with`",
            self._title,
        )
        kubelet.stop(EXIT_MS)
        with suppress(PodTimeout):
            self._wait_over(kubelet, EXIT_MS)

    # -- looking ---------------------------------------------------------------------------------------------------------------

    def _look(self, name: str, ms: float) -> TroupeStatus:
        nested = tuple(each._look(inner, ms) for inner, each in self._inner.items())
        return status_of(name, self._plan.spec, self._phases, self._kubelet, nested, ms)

    def _check_up(self, name: str, ms: float) -> Health:
        nested = tuple(each._check_up(inner, ms) for inner, each in self._inner.items())
        return health_of(name, self._plan.spec, self._phases, self._kubelet, nested, ms)

    def _count(self, ms: float) -> PodBooks:
        books = self._past + books_of(self._kubelet, ms)
        return sum((each._count(ms) for each in self._inner.values()), books)

    def _lose(self, letter: Undelivered) -> None:
        for callback in self._mourners:
            try:
                callback(letter)
            except Exception:
                logger.exception("%r raised, called with %s; everything else goes on", callback, letter)
