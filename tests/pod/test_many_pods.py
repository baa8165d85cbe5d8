"""What it costs to start and stop a troupe grows with the number of its pods, and not with its square."""

from __future__ import annotations

import sys
import threading
from types import FrameType
from typing import Any

import pytest

from bandstand.actor import Actor, ask
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from tests.pod.troupes import COOPERATIVE, DEDICATED

FEW = 10
TIMES = 6


class Neighbour(Actor):
    @ask
    def name(self) -> str:
        return "neighbour"


class NeighbourPeers(Directory):
    first: Neighbour


class Visitor(Neighbour):
    def __init__(self, peers: NeighbourPeers) -> None:
        self.peers = peers


def street(count: int, thread: ThreadModel) -> type[Troupe]:
    """A troupe of so many pods; all of them know the first."""
    others = {
        f"pod_{number}": pod(thread=thread).expose(Visitor, directory(NeighbourPeers))
        for number in range(1, count)
    }
    members = {"first": pod(thread=thread).expose(Neighbour), **others}
    return type("Street", (Troupe,), members)


def lines_of(made: type[Troupe]) -> int:
    """How many lines of this package it takes to start a troupe and stop it, on all threads."""
    lock, count = threading.Lock(), 0

    def look(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        if "bandstand/pod" not in frame.f_code.co_filename:
            return None
        if event == "line":
            with lock:
                count += 1
        return look

    before, before_threads = sys.gettrace(), threading.gettrace()
    threading.settrace(look)
    sys.settrace(look)
    try:
        with made():
            pass
    finally:
        sys.settrace(before)
        threading.settrace(before_threads)
    return count


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.guarantee("G293")
@pytest.mark.spec("S1")
@pytest.mark.real_time(reason="threads live in real time")
@pytest.mark.parametrize("thread", [COOPERATIVE, DEDICATED])
def test_start_and_stop_are_linear_in_the_number_of_pods(thread: ThreadModel) -> None:
    few, many = lines_of(street(FEW, thread)), lines_of(street(FEW * TIMES, thread))
    # A term in the square would make it many times as much.
    assert many < few * TIMES * 1.5, (few, many)
