"""What the tests of troupes play with: actors that do as they are told, in troupes of every kind."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from bandstand.actor import Actor, ask, tell
from bandstand.core import Lane
from bandstand.errors import PodGoneError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import PodPhase, ThreadModel
from bandstand.pod.phases import PodEvent
from bandstand.pod.spec import PodSpec
from bandstand.supervision import RestartPolicy
from tests.core.support import Boom

PATIENCE = 30.0  # seconds to wait for what must come
PATIENCE_MS = PATIENCE * 1000

COOPERATIVE = ThreadModel.COOPERATIVE
DEDICATED = ThreadModel.DEDICATED
MAIN = ThreadModel.MAIN
PROCESS = ThreadModel.PROCESS
ALWAYS = RestartPolicy.ALWAYS
ON_FAILURE = RestartPolicy.ON_FAILURE
NEVER = RestartPolicy.NEVER

T = TypeVar("T")


class Gate:
    """Something that a handler stands before, on whichever thread, and a test opens."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def stand(self) -> None:
        self.reached.set()
        if not self.opened.wait(PATIENCE):
            raise AssertionError("nobody has opened the gate")

    def open(self) -> None:
        self.opened.set()


@contextmanager
def standing(counter: Any) -> Generator[Gate]:
    """Let a counter stand before a gate, which is opened at the end."""
    gate = Gate()
    counter.stand(gate)
    try:
        assert gate.reached.wait(PATIENCE)
        yield gate
    finally:
        gate.open()


class Counter(Actor):
    """Counts, and ends in all kinds of ways."""

    def __init__(self, start: int = 0) -> None:
        self.total = start

    @tell
    def add(self, n: int = 1) -> None:
        self.total += n

    @ask
    def value(self) -> int:
        return self.total

    @ask
    def place(self) -> tuple[int, int]:
        """The process, and the thread, that it runs on."""
        return os.getpid(), threading.get_native_id()

    @tell
    def crash(self) -> None:
        raise Boom("crash")

    @tell
    def leave(self) -> None:
        self.stop()

    @tell
    def exit(self, code: int = 3) -> None:
        sys.exit(code)

    @tell
    def vanish(self, code: int = 3) -> None:
        os._exit(code)

    @tell
    def stand(self, gate: Gate) -> None:
        gate.stand()

    @tell(lane=Lane.CONTROL)
    def interrupt(self) -> None:
        raise KeyboardInterrupt


class Peers(Directory):
    counter: Counter


class Teller(Actor):
    """Speaks to a counter that is somewhere else."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers

    @tell
    def pass_on(self, n: int = 1) -> None:
        self.peers.counter.add(n)

    @ask
    async def value(self) -> int:
        return await self.peers.counter.value()

    @ask
    def identity(self) -> int:
        return threading.get_native_id()


class Spoiled(Actor):
    """Fails at its start."""

    def on_start(self) -> None:
        raise Boom("spoiled")


class Duo(Troupe):
    """A counter, and somebody who speaks to it."""

    counter = pod(restart=ON_FAILURE).expose(Counter)
    teller = pod(thread=COOPERATIVE).expose(Teller, directory(Peers))


class Solo(Troupe):
    """One counter, on a thread of its own."""

    counter = pod().expose(Counter)


def pod_in(thread: ThreadModel, restart: RestartPolicy = NEVER, **options: Any) -> PodSpec:
    """The pod of a counter, of this kind."""
    return replace(Solo.layout()["counter"], thread=thread, restart=restart, **options)


def solo(thread: ThreadModel, restart: RestartPolicy = NEVER, **options: Any) -> Solo:
    """A counter in a pod of this kind."""
    return Solo(layout={"counter": pod_in(thread, restart, **options)})


def wait_phase(troupe: Troupe, pod: str, *phases: PodPhase, number: int = 0) -> PodEvent:
    """Wait until a pod is in one of these phases."""
    return troupe.phases.until(pod, *phases, number=number, timeout=PATIENCE).blocking()


def in_thread(function: Callable[[], T]) -> Callable[[], T]:
    """Begin to call a function on a thread of its own; what waits for its result."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            answers.append(function())
        except BaseException as error:  # noqa: BLE001  # it is raised in the test
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def result() -> T:
        thread.join(PATIENCE)
        assert not thread.is_alive(), "it has not ended"
        if errors:
            raise errors[0]
        return answers[0]

    return result


def script_environment() -> dict[str, str]:
    """The environment of a script that imports the tests, and the same bandstand as they do."""
    root = str(Path(__file__).parents[2])
    paths = [root, *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}


def is_gone(call: Callable[[], object]) -> bool:
    """Whether a call finds nobody for good."""
    try:
        call()
    except PodGoneError:
        return True
    return False


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so that nobody tells of."""
    end = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < end, "it did not come"
        os.sched_yield()
