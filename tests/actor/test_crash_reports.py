"""The report of a crash: which actor, which message, which state, and a traceback that starts in the user's code."""

from __future__ import annotations

import logging
import traceback
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, batch, child, tell
from bandstand.core import Context
from bandstand.errors import TargetEndedError
from bandstand.supervision import ChildSpec, RestartPolicy, SupervisorSpec, spawn_supervisor
from tests.core.support import settle

pytestmark = pytest.mark.guarantee("G325")


class Unshowable:
    """An argument whose repr raises."""

    def __repr__(self) -> str:
        raise ValueError("no repr")


class Counter(Actor):
    def __init__(self, start: int = 0) -> None:
        self.total = start

    def describe_state(self) -> str:
        return f"total={self.total}"

    @tell
    def add(self, n: Any) -> None:
        self.total += n

    @tell
    def scale(self, by: Any, *, plus: int) -> None:
        self.total = self.total * by + plus

    @tell
    async def add_later(self, n: Any) -> None:
        self.total += n

    @ask
    def value(self) -> int:
        raise LookupError("no value")

    @batch()
    def add_all(self, many: list[Any]) -> None:
        self.total += sum(many)


class Silent(Actor):
    @tell
    def fail(self) -> None:
        raise ValueError("no")


class Confused(Actor):
    def describe_state(self) -> str:
        raise KeyError("x")

    @tell
    def fail(self) -> None:
        raise ValueError("no")


class Verbose(Actor):
    def describe_state(self) -> str:
        return "line\nforged " + "y" * 10_000

    @tell
    def fail(self, what: str) -> None:
        raise ValueError("no")


def report_of(caplog: pytest.LogCaptureFixture) -> str:
    """The only entry about a crash, as a formatter prints it."""
    (entry,) = [each for each in caplog.records if each.levelno >= logging.WARNING and each.exc_info]
    return logging.Formatter("%(message)s").format(entry)


def test_an_actor_without_a_supervisor(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    handle = loop.options(name="lonely").spawn(Counter, 5)
    handle.scale("x", plus=1)
    settle(loop)
    report = report_of(caplog)
    assert "lonely" in report
    assert "\n  class: Counter\n  message: Counter.scale('x', plus=1)\n  state: total=5\n" in report


@pytest.mark.parametrize("mode", [RestartPolicy.ALWAYS, RestartPolicy.NEVER])
def test_a_supervised_actor(loop: ActorSystem, caplog: pytest.LogCaptureFixture, mode: RestartPolicy) -> None:
    spec = child("kid", restart=mode).of(Counter, 7)
    spawn_supervisor(loop, SupervisorSpec(children=[spec])).handle(Counter, "kid").add("x")
    settle(loop)
    report = report_of(caplog)
    assert mode is RestartPolicy.NEVER or "restarts child 'kid': reason PANIC" in report
    assert "\n  class: Counter\n  message: Counter.add('x')\n  state: total=7\n" in report


@pytest.mark.parametrize("method", ["add_later", "add_all"])
def test_other_kinds_of_methods(loop: ActorSystem, caplog: pytest.LogCaptureFixture, method: str) -> None:
    getattr(loop.spawn(Counter), method)("x")
    loop.run(until_idle=True)
    shown = "Counter.add_later('x')" if method == "add_later" else "Counter.add_all(['x', ...])"
    assert f"\n  message: {shown}\n" in report_of(caplog)


def test_a_class_without_a_summary_and_what_cannot_be_shown(
    loop: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    unshowable = "Counter.add(<Unshowable: its repr() raised ValueError>)"
    for kind, words in (
        (Silent, "\n  message: Silent.fail()\n"),
        (Confused, "\n  state: (describe_state() raised KeyError)\n"),
        (Counter, unshowable),
    ):
        caplog.clear()
        handle: Any = loop.spawn(kind)
        if kind is Counter:
            handle.add(Unshowable())
        else:
            handle.fail()
        settle(loop)
        report = report_of(caplog)
        assert words in report
        assert ("state:" in report) is ("Silent" not in words)


def test_long_texts_are_cut_and_stay_on_their_line(
    loop: ActorSystem, caplog: pytest.LogCaptureFixture
) -> None:
    loop.spawn(Verbose).fail("x" * 10_000)
    settle(loop)
    lines = report_of(caplog).splitlines()
    message, state = lines[2], lines[3]
    assert message.startswith("  message: Verbose.fail('xxx")
    assert state.startswith("  state: line\\nforged yyy")
    assert len(message) < 400
    assert len(state) < 400


def test_a_raw_actor(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    def parse(ctx: Context[None], data: object) -> None:
        raise ValueError(data)

    tree = spawn_supervisor(loop, SupervisorSpec(children=[ChildSpec("kid", parse)]))
    kid = tree.child("kid")
    assert kid is not None
    loop.send(kid, {"a": 1})
    settle(loop)
    report = report_of(caplog)
    assert "parse\n  message: {'a': 1}\n" in report


def test_a_failure_outside_of_messages(loop: ActorSystem, caplog: pytest.LogCaptureFixture) -> None:
    def idle(ctx: Context[None], data: object) -> None: ...

    actor = loop.kernel.actors.spawn(idle, None, "idle", 100, None, None, None)
    loop.send(actor, "handled")
    settle(loop)
    loop.fail_actor(actor, "because")
    assert "message:" not in report_of(caplog)


@pytest.mark.guarantee("G326")
@pytest.mark.parametrize("debug", [False, True])
def test_the_traceback_starts_in_the_users_code(
    loop: ActorSystem, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, debug: bool
) -> None:
    monkeypatch.setenv("BANDSTAND_DEBUG", "1" if debug else "0")
    loop.spawn(Counter).add("x")
    settle(loop)
    frames = [line for line in report_of(caplog).splitlines() if line.startswith('  File "')]
    assert "in add" in frames[-1]
    assert (len(frames) > 1) is debug


@pytest.mark.guarantee("G326")
@pytest.mark.parametrize("debug", [False, True])
def test_the_cause_of_a_failed_ask(loop: ActorSystem, monkeypatch: pytest.MonkeyPatch, debug: bool) -> None:
    class Broken(Actor):
        @ask
        def value(self) -> int:
            raise KeyError("x")

    monkeypatch.setenv("BANDSTAND_DEBUG", "1" if debug else "0")
    reply = loop.spawn(Broken).value()
    settle(loop)
    with pytest.raises(TargetEndedError) as caught:
        reply.result()
    cause = caught.value.__cause__
    assert cause is not None
    frames = [frame.name for frame in traceback.extract_tb(cause.__traceback__)]
    assert frames[-1] == "value"
    assert (len(frames) > 1) is debug
