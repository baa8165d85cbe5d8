"""A node as a program, in this process."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest

from bandstand.bus import Capability, Command, Ingress, Memory, PipeAdapter, Service, serve
from bandstand.errors import ContractError, LoopBusyError

pytestmark = [
    pytest.mark.spec("C4", "C18"),
    pytest.mark.real_time(reason="a program runs its own event loop, in real time"),
]

LINE = b'{"kind":"query","type":"Syscall.Ping","metadata":{"id":"1","timestamp":0}}\n'


class Pinged(Command[None], type="Waits.Ping"):
    """Anybody there?"""


class Doorbell:
    """An adapter that does something when it is started."""

    name = "doorbell"
    can_produce = False
    is_flushed = True

    def __init__(self, ring: Callable[[], object]) -> None:
        self._ring = ring
        self.life: list[str] = []

    async def start(self, ingress: Ingress) -> None:
        self.life.append("start")
        self._ring()

    async def stop(self) -> None:
        self.life.append("stop")

    async def close(self, timeout: float) -> None:
        self.life.append("close")


def tell(number: int) -> None:
    os.kill(os.getpid(), number)


def run(service: Service) -> tuple[int, list[Any], str]:
    out, err = io.StringIO(), io.StringIO()
    code = serve(service, out, err)
    return code, [json.loads(line) for line in out.getvalue().splitlines()], err.getvalue()


def test_a_batch_ends_when_all_is_answered() -> None:
    source, into = os.pipe()
    back, sink = os.pipe()
    try:
        os.write(into, LINE)
        os.close(into)
        code, told, said = run(
            Service(load=lambda: [Memory], adapters=[PipeAdapter(source, sink)], is_batch=True)
        )
        answer = json.loads(os.read(back, 65536))
    finally:
        for descriptor in (source, back, sink):
            os.close(descriptor)
    assert code == 0
    assert [each["type"] for each in told] == ["Sys.BootComplete"]
    assert "ready in" in said
    assert answer["data"]["pong"] is True


class Broken(Doorbell):
    """An adapter that cannot say whether anything will come by it."""

    @property
    def can_produce(self) -> bool:  # type: ignore[override]  # that is the fault
        raise LoopBusyError("who knows")


def test_a_batch_of_which_nobody_knows_whether_it_is_done_has_failed() -> None:
    adapter = Broken(lambda: None)
    code, _, said = run(Service(load=lambda: [Memory], adapters=[adapter], is_batch=True))
    assert code == 1
    assert "the node has failed: who knows" in said
    assert adapter.life == ["start", "stop", "close"]


def test_a_quiet_one_still_says_what_fails_and_what_is_printed() -> None:
    class Chatty(Doorbell):
        @property
        def can_produce(self) -> bool:  # type: ignore[override]  # that is the fault
            sys.stdout.write("looked up\n")
            raise LoopBusyError("who knows")

    service = Service(load=lambda: [Memory], adapters=[Chatty(lambda: None)], is_batch=True, is_quiet=True)
    code, told, said = run(service)
    assert (code, [each["type"] for each in told]) == (1, ["Sys.BootComplete"])
    assert said == "looked up\nbandstand: the node has failed: who knows\n"


def test_where_no_program_reads_people_are_told_all_the_same() -> None:
    def advise(_summary: object) -> str:
        tell(signal.SIGTERM)
        return "try this"

    err = io.StringIO()
    assert serve(Service(load=lambda: [Memory], adapters=[], advice=advise), None, err) == 0
    assert "try this" in err.getvalue()


@pytest.mark.guarantee("G86")
def test_what_does_not_start_says_so_to_both() -> None:
    def load() -> list[type[Capability]]:
        raise ContractError("there is nothing to serve")

    code, told, said = run(Service(load=load, adapters=[]))
    assert code == 1
    assert [(each["kind"], each["type"]) for each in told] == [("error", "Sys.BootFailed")]
    assert "LOAD" in said
    assert "nothing to serve" in said


@pytest.mark.guarantee("G87")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_in_good_order(number: signal.Signals) -> None:
    bell = Doorbell(lambda: None)

    def advise(_summary: object) -> str:
        tell(number)
        return "try this"

    code, _, said = run(Service(load=lambda: [Memory], adapters=[bell], advice=advise))
    assert code == 0
    assert "try this" in said
    assert "stopping" in said
    assert bell.life == ["start", "stop", "close"]


def test_one_that_is_told_to_stop_while_it_boots_stops() -> None:
    class Waits(Capability):
        """Waits for what never comes."""

        async def on_start(self) -> None:
            tell(signal.SIGTERM)
            await asyncio.Event().wait()

        def ping(self, msg: Pinged) -> None:
            pass

    code, told, said = run(Service(load=lambda: [Waits], adapters=[]))
    assert (code, told) == (1, [])
    assert "before the node was ready" in said


def test_the_handlers_of_signals_are_as_they_were() -> None:
    before = signal.getsignal(signal.SIGTERM)

    def advise(_summary: object) -> str:
        tell(signal.SIGTERM)
        return ""

    run(Service(load=lambda: [Memory], adapters=[], advice=advise))
    assert signal.getsignal(signal.SIGTERM) is before
