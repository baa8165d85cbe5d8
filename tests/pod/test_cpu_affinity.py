"""Cores: asked for, and verified through the operating system; where there are none, a warning and no failure."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import TypeVar

import pytest

from bandstand.actor import Actor, ask
from bandstand.pod import ThreadModel, Troupe, cpu_affinity, pod
from bandstand.pod.cpu_affinity import allow_cores, pin, process_cores, unpin

T = TypeVar("T")

pytestmark = [pytest.mark.spec("S9"), pytest.mark.guarantee("G142")]

HERE = sorted(os.sched_getaffinity(0))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(cpu_affinity, "_process_cores", None)
    yield
    monkeypatch.undo()
    assert sorted(os.sched_getaffinity(0)) == HERE, "the thread of the tests was pinned"


def on_thread(function: Callable[[], T]) -> T:
    """What a function returns on a thread of its own: whatever becomes of its cores, others keep theirs."""
    results: list[T] = []
    thread = Thread(target=lambda: results.append(function()))
    thread.start()
    thread.join()
    return results[0]


def listed_cores() -> str:
    """What the kernel says of the thread that asks."""
    found = re.search(r"Cpus_allowed_list:\s*(\S+)", Path("/proc/thread-self/status").read_text("ascii"))
    assert found is not None
    return found[1]


@pytest.mark.parametrize("core", HERE[:4])
def test_a_thread_is_pinned_and_the_kernel_says_so(core: int, caplog: pytest.LogCaptureFixture) -> None:
    """The fixture checks that the thread of the test is not."""
    assert on_thread(lambda: (pin(core, "pod 'engine'"), listed_cores())) == (True, str(core))
    assert caplog.records == []


@pytest.mark.parametrize("core", [max(HERE) + 1000, 10**9, 10**30])
def test_a_core_that_is_not_there_is_a_warning(core: int, caplog: pytest.LogCaptureFixture) -> None:
    is_pinned, cores = on_thread(lambda: (pin(core, "pod 'engine'"), sorted(os.sched_getaffinity(0))))
    assert not is_pinned
    assert cores == HERE
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "bandstand.pod")
    message = record.getMessage()
    assert message.startswith(f"pod 'engine' asks for core {core}, but this process may not run on it (")
    assert message.endswith(
        f"): it runs on any core; pass one of {', '.join(map(str, HERE))}, or allow the process more cores (taskset, cpuset)"
    )


def test_a_platform_without_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delattr(os, "sched_setaffinity")
    assert not pin(0, "pod 'engine'")
    (record,) = caplog.records
    assert (
        record.getMessage()
        == "pod 'engine' asks for core 0, but linux cannot pin threads: it runs on any core; leave core= out"
    )
    assert process_cores() is None
    unpin()
    allow_cores({0})
    assert len(caplog.records) == 1


def test_a_refusal_is_a_warning(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def put(_pid: int, _cores: object) -> None:
        pass

    def told(_pid: int) -> set[int]:
        return {5, 3}

    monkeypatch.setattr(os, "sched_setaffinity", put)
    monkeypatch.setattr(os, "sched_getaffinity", told)
    assert not pin(3, "pod 'engine'")
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "pod 'engine' asks for core 3, but the operating system runs it on 3, 5: "
    )


@pytest.mark.skipif(len(HERE) < 2, reason="one core is all there is")
def test_what_a_pinned_thread_starts_can_be_let_go() -> None:
    def child() -> tuple[str, list[int]]:
        inherited = listed_cores()
        unpin()
        return inherited, sorted(os.sched_getaffinity(0))

    def parent() -> tuple[str, list[int]]:
        assert pin(HERE[1], "the kubelet")
        return on_thread(child)

    assert on_thread(parent) == (str(HERE[1]), HERE)


def test_who_was_never_pinned_stays_where_he_is(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[object] = []

    def put(_pid: int, cores: object) -> None:
        calls.append(cores)

    monkeypatch.setattr(os, "sched_setaffinity", put)
    unpin()
    allow_cores(None)
    assert calls == []


def test_home_is_what_it_was_before_the_first_was_pinned() -> None:
    def pinned() -> tuple[bool, frozenset[int] | None]:
        return pin(HERE[0], "pod 'engine'"), process_cores()

    assert on_thread(pinned) == (True, frozenset(HERE))


def test_cores_that_are_none_are_left_out() -> None:
    allow_cores({max(HERE) + 1000})
    assert sorted(os.sched_getaffinity(0)) == HERE


# --- a whole troupe -----------------------------------------------------------------------------------------------------


class Guest(Actor):
    """Says where it is."""

    @ask
    def cores(self) -> str:
        return listed_cores()


class Leaving(Actor):
    """Notes where it is, and leaves."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen

    def on_start(self) -> None:
        self.seen.append(listed_cores())
        self.stop()


@pytest.mark.spec("S8")
@pytest.mark.skipif(len(HERE) < 2, reason="one core is all there is")
@pytest.mark.real_time(reason="threads are real")
def test_a_kubelet_and_its_pods_are_where_their_troupe_says_and_nobody_else_is() -> None:
    class Hotel(Troupe):
        kubelet_core = HERE[1]
        beside = pod(thread=ThreadModel.COOPERATIVE).expose(Guest)
        pinned = pod(core=HERE[0]).expose(Guest)
        free = pod().expose(Guest)

    everywhere = listed_cores()
    with Hotel() as hotel:
        assert hotel.beside.cores.blocking() == str(HERE[1])
        assert hotel.pinned.cores.blocking() == str(HERE[0])
        assert hotel.free.cores.blocking() == everywhere
        assert hotel.status().pod("pinned").core == HERE[0]
        assert hotel.status().pod("free").core is None
    assert listed_cores() == everywhere


@pytest.mark.skipif(len(HERE) < 2, reason="one core is all there is")
@pytest.mark.real_time(reason="threads are real")
def test_the_main_pod_gives_its_core_back_to_whoever_has_lent_the_thread() -> None:
    seen: list[str] = []

    class Hotel(Troupe):
        main = pod(thread=ThreadModel.MAIN, core=HERE[0]).of(Leaving, seen)

    everywhere = listed_cores()
    Hotel().play()
    assert (seen, listed_cores()) == ([str(HERE[0])], everywhere)
