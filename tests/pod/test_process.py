"""Child processes: how they start, exchange messages and end. Each end is a `ProcessExit` with a reason."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bandstand.errors import InvalidArgumentError, InvalidMessageError, RemoteError, StartError
from bandstand.pod.cpu_affinity import process_cores
from bandstand.pod.process import ChildProcess, ProcessExit, spawn_child
from tests.pod.child_targets import Unreadable, ended, ending, is_zombie_or_alive, waited_for

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.real_time(reason="processes run in real time"),
    pytest.mark.usefixtures("bandstand_leak_check"),
]


@pytest.fixture(params=["descriptor", "thread"])
def watching(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways to wait for an exit."""
    if request.param == "thread":
        monkeypatch.delattr(os, "pidfd_open")


async def spawn(target: str, payload: object = None, **options: Any) -> ChildProcess:
    return await spawn_child(f"tests.pod.child_targets:{target}", name="painter", payload=payload, **options)


def with_every_popen(monkeypatch: pytest.MonkeyPatch, action: Callable[[int], object]) -> None:
    """Call a function with the pid of every process as soon as it is started."""
    popen: Callable[..., Any] = subprocess.Popen

    def noted(*args: Any, **kwargs: Any) -> Any:
        process = popen(*args, **kwargs)
        action(process.pid)
        return process

    monkeypatch.setattr(subprocess, "Popen", noted)


# -- starting ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_it_runs_a_function_and_exchanges_messages() -> None:
    child = await spawn("echo", {"colour": "red"})
    assert child.pid != os.getpid()
    assert repr(child) == f"<process 'painter', pid {child.pid}, running>"
    assert (await child.control.receive()).body == {"colour": "red"}
    child.control.send([1, 2])
    assert (await child.control.receive()).body == [1, 2]
    child.control.send("stop")
    assert await ended(child) == ProcessExit(0, None, "exit code 0")
    assert child.exit == ProcessExit(0, None, "exit code 0")
    assert repr(child) == f"<process 'painter', pid {child.pid}, exit code 0>"


@pytest.mark.slow
@pytest.mark.guarantee("G138")
async def test_it_is_a_process_of_the_same_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BANDSTAND_TEST_VARIABLE", "yes")
    monkeypatch.setattr(sys, "path", [str(tmp_path), "", *sys.path])
    path = list(sys.path)
    sys.path.append(tmp_path)  # type: ignore[arg-type]  # as some do
    monkeypatch.setattr(sys, "argv", ["program", "--colour", "red"])
    child = await spawn("describe")
    (message,) = [message async for message in child.control]
    await ended(child)
    seen = message.body
    assert seen["argv"] == ["program", "--colour", "red"]
    assert seen["path"] == path
    assert seen["environment"] == "yes"
    assert seen["cwd"] == os.getcwd()
    assert seen["stdin"]
    assert seen["optimize"] == sys.flags.optimize
    assert seen["cores"] == sorted(process_cores() or ())
    assert not seen["multiprocessing"]
    assert seen["inheritable_fds"] == [0, 1, 2]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G138")
async def test_flags_are_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "warnoptions", ["ignore::FutureWarning"])
    child = await spawn("describe")
    (message,) = [message async for message in child.control]
    await ended(child)
    assert "ignore::FutureWarning" in message.body["warnoptions"]


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G142", "G138")
@pytest.mark.spec("S9")
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")
async def test_it_does_not_inherit_a_pinned_core() -> None:
    home = sorted(process_cores() or ())
    os.sched_setaffinity(0, {home[1]})
    try:
        child = await spawn("describe")
        (message,) = [message async for message in child.control]
        await ended(child)
        assert message.body["cores"] == home
    finally:
        os.sched_setaffinity(0, home)


@pytest.mark.slow
@pytest.mark.once
async def test_its_standard_output_can_be_redirected(tmp_path: Path) -> None:
    with (tmp_path / "out").open("wb") as file:
        assert (await ended(await spawn("print_payload", "hello", stdout=file.fileno()))).is_clean
    assert (tmp_path / "out").read_text("ascii") == "hello\n"


@pytest.mark.slow
async def test_descriptors_reach_it() -> None:
    child = await spawn("write_to_descriptors")
    pairs = [socket.socketpair() for _ in range(3)]
    for number, (_here, there) in enumerate(pairs):
        child.control.send(number, [there.fileno()])
        there.close()
    loop = asyncio.get_running_loop()
    for number, (here, _there) in enumerate(pairs):
        here.settimeout(0)
        assert await loop.sock_recv(here, 100) == str(number).encode()
        here.close()
    await child.close()


@pytest.mark.parametrize(
    "target", ["", "targets", "targets:", ":echo", "tests.pod.child_targets:echo()", "a b:c"]
)
async def test_a_malformed_target_is_rejected(target: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^process 'painter': target is .*: pass \"module:function\"$"
    ):
        await spawn_child(target, name="painter")


async def test_a_payload_that_cannot_be_pickled_is_rejected() -> None:
    with pytest.raises(TypeError, match=r"^function cannot be sent to process 'painter': "):
        await spawn_child("tests.pod.child_targets:echo", name="painter", payload=lambda: None)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G139")
@pytest.mark.parametrize(
    ("target", "payload", "reason", "cause"),
    [
        (
            "tests.nowhere:echo",
            None,
            "ModuleNotFoundError: No module named 'tests.nowhere'",
            ModuleNotFoundError,
        ),
        (
            "tests.pod.child_targets:nix",
            None,
            "target is 'tests.pod.child_targets:nix', and there is no such function",
            InvalidArgumentError,
        ),
        (
            "tests.pod.child_targets:echo",
            Unreadable(),
            "the payload cannot be unpickled: RuntimeError: not here",
            InvalidMessageError,
        ),
    ],
)
async def test_a_failed_start_has_a_reason(
    target: str, payload: object, reason: str, cause: type[Exception]
) -> None:
    with pytest.raises(StartError) as caught:
        await spawn_child(target, name="painter", payload=payload)
    assert str(caught.value) == f"process 'painter' did not start: {reason}"
    assert isinstance(caught.value.__cause__, cause)
    assert str(caught.value.__cause__.__cause__).startswith("\nTraceback")


async def test_a_missing_interpreter_is_a_failed_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(StartError, match=r"^process 'painter' did not start: .*No such file"):
        await spawn("echo")


@pytest.mark.parametrize(("name", "value"), [("executable", ""), ("frozen", True)])
async def test_a_frozen_program_is_rejected(
    monkeypatch: pytest.MonkeyPatch, name: str, value: object
) -> None:
    monkeypatch.setattr(sys, name, value, raising=False)
    with pytest.raises(InvalidArgumentError, match="this program is frozen or embedded"):
        await spawn("echo")


@pytest.mark.guarantee("G139")
async def test_a_cancelled_start_leaves_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    pids: list[int] = []
    with_every_popen(monkeypatch, pids.append)
    task = asyncio.create_task(spawn("echo"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not is_zombie_or_alive(pids[0])


# -- Ctrl-C and SIGTERM ------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G141")
async def test_ctrl_c_does_not_reach_it() -> None:
    async with await spawn("echo") as child:
        await child.control.receive()
        os.kill(child.pid, signal.SIGINT)
        child.control.send("still there")
        assert (await child.control.receive()).body == "still there"


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G141")
async def test_ctrl_c_does_not_reach_it_while_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    with_every_popen(monkeypatch, lambda pid: os.kill(pid, signal.SIGINT))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    async with await spawn("echo", "well") as child:
        assert (await child.control.receive()).body == "well"
    assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == before


@pytest.mark.slow
@pytest.mark.guarantee("G141")
async def test_sigterm_cancels_its_target_once() -> None:
    child = await spawn("tidy")
    assert (await child.control.receive()).body == "waiting"
    child.terminate()
    assert (await child.control.receive()).body == "cancelled"
    # A second SIGTERM does not cancel it again.
    child.terminate()
    child.control.send("go")
    assert (await child.control.receive()).body == "last message"
    assert await ended(child) == ProcessExit(0, None, "exit code 0")


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G143")
@pytest.mark.parametrize(("has_handler", "code"), [(False, -signal.SIGTERM), (True, 7)])
async def test_a_fork_has_neither_its_channel_nor_its_signals(has_handler: bool, code: int) -> None:
    async with await spawn("fork", has_handler) as child:
        assert (await child.control.receive()).body == (b"no", code)
        child.control.send("are you there?")
        assert (await child.control.receive()).body == "still here"
        assert await ended(child) == ProcessExit(0, None, "exit code 0")


# -- exits -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.guarantee("G139")
@pytest.mark.usefixtures("watching")
async def test_an_exception_is_the_reason_of_the_exit() -> None:
    child = await spawn("fail", "no such page")
    end = await ended(child)
    assert (end.code, end.signal, end.reason) == (1, None, "ValueError: no such page")
    assert not end.is_clean
    assert isinstance(end.cause, ValueError)
    assert end.cause.args == ("no such page",)
    assert "raise ValueError(payload)\nValueError: no such page" in str(end.cause.__cause__)
    # Earlier messages can still be received.
    assert [message.body async for message in child.control] == ["last message"]
    with pytest.raises(EOFError, match=r"^process 'painter': exit code 1$"):
        await child.control.receive()


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G139")
async def test_an_exception_that_cannot_be_restored_is_a_remote_error() -> None:
    end = await ending("fail_oddly")
    assert end.reason == "UnbuildableError: 1 and 2"
    assert type(end.cause) is RemoteError
    assert str(end.cause).startswith(
        "tests.pod.child_targets.UnbuildableError: 1 and 2 (cannot be rebuilt here: "
    )
    assert end.cause.kind == "tests.pod.child_targets.UnbuildableError"
    assert "raise UnbuildableError(1, 2)" in str(end.cause.__cause__)


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G139")
@pytest.mark.usefixtures("watching")
async def test_every_exit_has_its_code_or_signal_and_its_words(capfd: pytest.CaptureFixture[str]) -> None:
    unnamed = signal.SIGRTMIN + 5
    exits: list[tuple[str, object, int | None, int | None, str]] = [
        ("nothing", None, 0, None, "exit code 0"),
        ("exit_at_once", 3, 3, None, "exit code 3"),
        ("exit_with", 4, 4, None, "exit code 4"),
        ("exit_with", None, 0, None, "exit code 0"),
        ("exit_with", "no more", 1, None, "exit code 1"),
        ("exhaust", None, 1, None, "MemoryError"),
        ("get_signal", int(signal.SIGABRT), None, signal.SIGABRT, "killed by SIGABRT (aborted)"),
        ("get_signal", int(signal.SIGHUP), None, signal.SIGHUP, "killed by SIGHUP"),
        ("get_signal", unnamed, None, unnamed, f"killed by signal {unnamed}"),
        ("segfault", None, None, signal.SIGSEGV, "killed by SIGSEGV (segmentation fault)"),
    ]
    ends = await asyncio.gather(*(ending(target, payload) for target, payload, *_ in exits))
    assert [(end.code, end.signal, end.reason) for end in ends] == [row[2:] for row in exits]
    assert [type(end.cause) for end in ends if end.cause is not None] == [MemoryError]
    # faulthandler prints where.
    assert "in segfault" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.guarantee("G139")
@pytest.mark.parametrize("target", ["wait", "spin"])
@pytest.mark.usefixtures("watching")
async def test_kill(target: str) -> None:
    child = await spawn(target)
    await child.control.receive()
    os.kill(child.pid, signal.SIGKILL)
    assert await ended(child) == ProcessExit(None, signal.SIGKILL, "killed by SIGKILL")
    with pytest.raises(EOFError, match=r"^process 'painter': killed by SIGKILL$"):
        await child.control.receive()
    assert not child.control.send("too late")
    # Another process may have its pid now, and must not get a signal.
    child.kill()
    child.terminate()


@pytest.mark.slow
@pytest.mark.guarantee("G140")
async def test_closing_the_channel_ends_it_at_once() -> None:
    child = await spawn("wait")
    await child.control.receive()
    child.control.close()
    assert (await ended(child)).code == 70


@pytest.mark.slow
@pytest.mark.guarantee("G139")
@pytest.mark.usefixtures("watching")
async def test_every_waiter_gets_the_exit() -> None:
    child = await spawn("wait")
    waits = [asyncio.create_task(ended(child)) for _ in range(3)]
    impatient = asyncio.create_task(ended(child))
    await asyncio.sleep(0)
    impatient.cancel()
    child.kill()
    assert [end.signal for end in await asyncio.gather(*waits)] == [signal.SIGKILL] * 3
    assert (await ended(child)).signal == signal.SIGKILL


@pytest.mark.slow
@pytest.mark.once
@pytest.mark.guarantee("G139")
async def test_the_exit_is_unknown_if_other_code_has_reaped_it() -> None:
    child = await spawn("nothing")
    waited_for(child.pid)
    end = await ended(child)
    assert (end.code, end.signal) == (None, None)
    assert end.reason.startswith(
        "gone, with an unknown exit status: other code in this program has waited for it"
    )
    assert not end.is_clean


@pytest.mark.once
@pytest.mark.guarantee("G139")
@pytest.mark.slow
@pytest.mark.timeout(200)
def test_many_processes_leave_no_descriptor_and_no_thread(bandstand_run: Callable[..., None]) -> None:
    # The leak check fixture counts them.
    async def body() -> None:
        for _ in range(3):
            children = await asyncio.gather(*(spawn("flood", 100) for _ in range(4)))
            for child in children:
                if child.pid % 2:
                    await child.close()
                else:
                    await ended(child)

    # A busy machine needs longer.
    bandstand_run(body, timeout=180)
