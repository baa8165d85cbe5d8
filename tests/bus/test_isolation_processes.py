"""Capabilities in processes of their own: however one dies, it is one answer, and nobody else's trouble."""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bandstand.bus import (
    Capability,
    Contract,
    Frame,
    Memory,
    Node,
    NodeConfig,
    RestartLimits,
    provide,
)
from bandstand.bus.contracts.capability import read_capability
from bandstand.bus.contracts.describe import describe
from bandstand.bus.memory import Get, Set
from bandstand.bus.syscall import HealthQuery, Reset, StatsQuery
from bandstand.core.asyncio_host import new_event_loop
from bandstand.errors import BootError, ContractError, RequestFailedError
from bandstand.isolation import host, isolated
from bandstand.testing import leaks_of
from tests.bus.failing_capabilities import (
    FUNCTION,
    WORKER,
    Ask,
    Asking,
    Begun,
    Bystander,
    Die,
    Door,
    Hang,
    Mortal,
    Place,
    Post,
    Slow,
    Tell,
    Unstartable,
    Where,
)
from tests.bus.virtual_node import AsyncTest, hushed, with_fixtures_of
from tests.core.support import guarded

pytestmark = [
    pytest.mark.spec("C27"),
    pytest.mark.real_time(reason="real processes start, die and are waited for"),
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="faults and limits as Linux has them"),
]

# However slow the machine is.
PATIENCE = 40
# The same for what starts many processes.
LONG = 150

ENDS = {
    "raise": "ValueError: by wish",
    "sys.exit": "ActorFailedError: the handler of Mortal.Die called sys.exit(4)",
    "os._exit": "its process has ended: exit code 3",
    "kill": "its process has ended: killed by SIGKILL",
    "segfault": "its process has ended: killed by SIGSEGV (segmentation fault)",
    "abort": "its process has ended: killed by SIGABRT (aborted)",
    # In its own words if there is memory enough for them, else without.
    "memory": "",
}


class Theatre:
    """A node in real time, and what a test sees of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.bus: Any = node.bus
        self.answers: Counter[str | None] = Counter()
        """How many answers have gone out, by the id of the request."""
        self.requests: set[str] = set()
        self.begun: list[tuple[int, str]] = []
        """What has begun, where."""
        self.types: list[str] = []
        self._waiting: list[tuple[str, asyncio.Future[int]]] = []
        node.tap(self._see)

    def _see(self, frame: Frame, _destination: str) -> None:
        self.types.append(frame.type)
        if frame.kind in {"reply", "error"}:
            self.answers[frame.metadata.causation] += 1
        elif frame.is_request:
            self.requests.add(frame.metadata.id)
        elif frame.type == Begun.message_type:
            said = msgspec.json.decode(frame.data, type=Begun)
            self.begun.append((said.pid, said.what))
            for what, future in self._waiting:
                if what == said.what and not future.done():
                    future.set_result(said.pid)

    def begins(self, what: str) -> asyncio.Future[int]:
        """When the next handler says so, in whatever process: which that is."""
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((what, future))
        return future

    def ask(self, message: Any, **more: Any) -> asyncio.Task[Any]:
        return asyncio.ensure_future(self.bus.ask(message, **more))

    async def where(self) -> int:
        place: Place = await self.bus.ask(Where())
        return place.pid

    async def check(self) -> None:
        """Whatever the test was about: each request has had one answer, and the books balance."""
        books = (await self.node.bus.ask(StatsQuery())).requests
        assert books.is_balanced, books
        assert set(self.answers.values()) <= {1}, self.answers
        assert books.in_flight == 1, "the question itself"


def play(act: Any, *capabilities: Any, patience: int = PATIENCE, **fields: Any) -> None:
    """Run a test on a node of its own; in the end nothing may be left: no process, no descriptor, no task."""
    escaped: list[dict[str, Any]] = []
    node = Node(capabilities, config=NodeConfig(**{"health_period": 0, **fields}))

    async def main() -> None:
        async with asyncio.timeout(patience):
            async with node:
                theatre = Theatre(node)
                await act(theatre)
                await theatre.check()
            assert children() == set()
            assert {task for task in asyncio.all_tasks() if not task.done()} == {asyncio.current_task()}

    with hushed(), asyncio.Runner(loop_factory=guarded(new_event_loop, escaped)) as runner:
        runner.run(main())
    assert leaks_of(node.loop) == []
    assert escaped == []
    assert children() == set()


def played(*capabilities: Any, **fields: Any) -> Callable[[AsyncTest], Callable[..., None]]:
    """A test that is played: `async def test_it(self, theatre: Theatre)`. Its other parameters are fixtures."""

    def run(test: AsyncTest, **fixtures: Any) -> None:
        def act(theatre: Theatre) -> Coroutine[Any, Any, None]:
            return test(theatre=theatre, **fixtures)

        play(act, *capabilities, **fields)

    return lambda test: with_fixtures_of(test, run, given=("theatre",))


def children() -> set[int]:
    """The processes that this one has started, and that have not been reaped."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        # A thread may end meanwhile.
        with suppress(FileNotFoundError):
            found |= {int(pid) for pid in (task / "children").read_text().split()}
    # multiprocessing's tracker and fork server, which any test that uses them leaves for good, are nobody's capabilities.
    helpers = (b"resource_tracker", b"forkserver")
    return {pid for pid in found if not any(name in _command_of(pid) for name in helpers)}


def _command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        # It has gone meanwhile.
        return b""


async def failure(awaited: Any) -> RequestFailedError:
    with pytest.raises(RequestFailedError) as caught:
        await awaited
    return caught.value


@pytest.mark.guarantee("G153")
class TestDying:
    @pytest.mark.timeout(LONG + 30)
    def test_it_is_one_answer_and_nobody_elses_trouble(self, subtests: pytest.Subtests) -> None:
        """One after the other, while somebody else is at a request all the time."""

        async def act(theatre: Theatre) -> None:
            begun = theatre.begins("slow")
            # As long as all of it may take on a busy machine: so many processes are started.
            slow = theatre.ask(Slow(), timeout=LONG)
            bystander = await begun
            for count, (how, words) in enumerate(ENDS.items(), 1):
                with subtests.test(how=how):
                    await dies(theatre, how, words)
                    health = (await theatre.bus.ask(HealthQuery())).capabilities["Mortal"]
                    assert (health.crashes, health.restarts) == (count, count)
                    assert words in str(health.last_fault)
                    # Who has nothing to do with it is still at its request.
                    assert not slow.done()
            is_open.set()
            assert await slow == bystander
            health = (await theatre.bus.ask(HealthQuery())).capabilities["Slow"]
            assert (health.crashes, health.restarts) == (0, 0)

        async def dies(theatre: Theatre, how: str, words: str) -> None:
            before = await theatre.where()
            dying = theatre.ask(Die(how))
            # They wait in the mailbox, and are not its affair.
            waiting = [theatre.ask(Where()) for _ in range(3)]
            error = await failure(dying)
            assert error.type == "Sys.ActorCrash"
            assert "the handler of Mortal failed: " in str(error)
            assert words in str(error)
            places = await asyncio.gather(*waiting)
            assert [place.handled for place in places] == [1, 2, 3]
            assert {place.pid for place in places}.isdisjoint({before, os.getpid()})
            await theatre.bus.ask(Set(key="k", value=1))

        is_open = asyncio.Event()
        play(act, isolated(Mortal), isolated(Bystander), provide(Door, is_open), Memory, patience=LONG)

    @played(isolated(replace(FUNCTION, restarts=RestartLimits(max_restarts=0))))
    async def test_too_often_and_it_is_out_of_service_until_it_is_reset(self, theatre: Theatre) -> None:
        assert (await failure(theatre.ask(Tell("die")))).type == "Sys.ActorCrash"
        error = await failure(theatre.ask(Tell("hello")))
        assert error.type == "Sys.Unhealthy"
        assert "exit code 5" in str(error)
        assert children() == set()
        await theatre.bus.ask(Reset(capability="Function"))
        said = await theatre.bus.ask(Tell("hello"))
        (pid,) = children()
        assert said == f"hello from {pid}"


@pytest.mark.guarantee("G153", "G154")
@pytest.mark.once
class TestDeadlines:
    @played(isolated(Mortal))
    async def test_one_that_is_stuck_for_good_can_be_reset(self, theatre: Theatre) -> None:
        """In the node's own process nobody could."""
        begun = theatre.begins("hang")
        hanging = theatre.ask(Hang(is_deaf=True), timeout=0.05)
        victim = await begun
        assert (await failure(hanging)).type == "Sys.Timeout"
        waiting = theatre.ask(Where())
        await theatre.bus.ask(Reset(capability="Mortal"))
        assert (await waiting).pid != victim


@pytest.mark.guarantee("G153", "G154")
@pytest.mark.once
class TestEnds:
    def test_a_node_that_stops_lets_it_say_goodbye(self) -> None:
        seen: list[str] = []

        async def act(theatre: Theatre) -> None:
            await theatre.where()
            assert len(children()) == 1
            theatre.node.tap(lambda frame, _to: seen.append(frame.type))

        play(act, isolated(Mortal))
        assert seen[-1] == "Mortal.Ended"

    @played(isolated(Mortal), drain_timeout=0)
    async def test_one_that_does_not_stop_is_killed(
        self, theatre: Theatre, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(host, "STOP_TIMEOUT", 0.05)
        begun = theatre.begins("hang")
        hanging = theatre.ask(Hang(is_deaf=True))
        await begun
        hanging.cancel()

    @pytest.mark.parametrize(
        ("how", "words"), [("raise", "ValueError: by wish"), ("os._exit", "exit code 3"), ("kill", "SIGKILL")]
    )
    def test_a_process_that_does_not_start_fails_the_boot(self, how: str, words: str) -> None:
        async def act(theatre: Theatre) -> None:
            raise AssertionError("it has started")

        with pytest.raises(BootError, match=words):
            play(act, isolated(Mortal), isolated(provide(Unstartable, how)), Memory)
        assert children() == set()

    def test_a_process_whose_node_is_killed_is_gone(self, tmp_path: Path) -> None:
        program = tmp_path / "program.py"
        program.write_text(PROGRAM)
        here = Path(__file__).parents[2]
        with subprocess.Popen(
            [sys.executable, str(program)],
            stdout=subprocess.PIPE,
            cwd=here,
            env={**os.environ, "PYTHONPATH": str(here)},
        ) as node:
            assert node.stdout is not None
            deaf, idle = (int(node.stdout.readline()) for _ in range(2))
            with exit_of(deaf) as deaf_ended, exit_of(idle) as idle_ended:
                node.kill()
                deaf_ended()
                idle_ended()


PROGRAM = '''
import asyncio
from bandstand.bus import Capability, Node, Query
from bandstand.isolation import host, isolated
from tests.bus.failing_capabilities import Begun, Hang, Mortal, Where

class Other(Mortal):
    """Another one, declared in the program itself."""
    id = "Other"
    def where(self, msg: "Here") -> int:
        import os
        return os.getpid()
    die = hang = None

class Here(Query[int], type="Other.Here"):
    pass

async def main():
    async with Node([isolated(Mortal), isolated(Other)]) as node:
        pid = (await node.bus.ask(Where())).pid
        other = await node.bus.ask(Here())
        begun = asyncio.Event()
        node.tap(lambda frame, to: frame.type == Begun.message_type and begun.set())
        asyncio.ensure_future(node.bus.ask(Hang(is_deaf=True)))
        await begun.wait()
        print(pid, flush=True)
        print(other, flush=True)
        await asyncio.get_running_loop().create_future()

if __name__ == "__main__":
    asyncio.run(main())
'''


class exit_of:  # noqa: N801  # it reads like a function
    """Waits for the end of a process that need not be a child of this one."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def __enter__(self) -> Any:
        return self.wait

    def wait(self) -> None:
        ready, _, _ = select.select([self._fd], [], [], PATIENCE)
        assert ready, "it lives on"

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)


@pytest.mark.guarantee("G152", "G153")
@pytest.mark.once
class TestInside:
    """A capability cannot tell where it is."""

    @played(isolated(Mortal), isolated(Asking))
    async def test_who_asks_one_that_dies_is_answered_and_lives_on(self, theatre: Theatre) -> None:
        begun = theatre.begins("hang")
        hanging = theatre.ask(Hang())
        victim = await begun
        asking = theatre.ask(Ask())
        os.kill(victim, signal.SIGKILL)
        await failure(hanging)
        # It had not begun with what the other has asked: the next one does it.
        assert (await asking).pid != victim
        assert (await theatre.bus.ask(HealthQuery())).capabilities["Asking"].crashes == 0

    @played(isolated(FUNCTION), isolated(WORKER))
    async def test_a_function_and_a_worker(self, theatre: Theatre) -> None:
        assert str(await theatre.bus.ask(Tell("hello"))).startswith("hello from ")
        assert "not that" in str(await failure(theatre.ask(Tell("no"))))
        assert "exit code 5" in str(await failure(theatre.ask(Tell("die"))))
        # It has to be given both before it answers one.
        assert list(await asyncio.gather(theatre.ask(Post("one")), theatre.ask(Post("two")))) == [
            "one of 2",
            "two of 2",
        ]
        first, second = theatre.ask(Post("first")), theatre.ask(Post("die"))
        for lost in (first, second):
            # What a Worker was given, it owes.
            assert "exit code 6" in str(await failure(lost))
        assert str(await theatre.bus.ask(Tell("again"))).startswith("again from ")

    @played(isolated(Memory))
    async def test_a_large_message_comes_and_goes(self, theatre: Theatre) -> None:
        text = "é" * (3 << 20)
        await theatre.bus.ask(Set(key="k", value=text))
        assert (await theatre.bus.ask(Get(key="k"))).value == text


@pytest.mark.guarantee("G152")
class TestDeclaring:
    def test_what_cannot_travel_is_refused_before_anything_starts(self) -> None:
        class Local(Capability):
            """Nobody finds it by its name."""

            def where(self, msg: Where) -> Place:
                return Place(0, 0)

        with pytest.raises(ContractError, match=r"Local cannot run in a process of its own.*top of a module"):
            isolated(Local)
        with pytest.raises(ContractError, match="Mortal cannot run"):
            isolated(provide(Picky, lambda: None))
        with pytest.raises(ContractError, match="Spawned cannot run"):
            isolated(Contract(id="Spawned", description="d", inbound=Tell, spawn=lambda: None))
        with pytest.raises(ContractError, match="is not a class derived from Capability"):
            isolated(Place)  # type: ignore[arg-type]  # on purpose

    def test_nothing_of_what_is_declared_is_different(self) -> None:
        here, there = (
            [
                (each.kind, each.type, each.description, each.schema, each.reply)
                for each in describe((read_capability(source),)).capabilities[0].handles
            ]
            for source in (Mortal, isolated(Mortal))
        )
        assert here == there
        assert read_capability(isolated(isolated(FUNCTION))).host_factory is not None


class Picky(Mortal):
    """Takes what cannot be pickled."""

    id = "Mortal"

    def __init__(self, function: Any) -> None:
        super().__init__()


@pytest.mark.guarantee("G152")
@pytest.mark.once
class TestServing:
    """By the command line alone."""

    def serve(self, tmp_path: Path, lines: str, *options: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "painting.py").write_text(PAINTING)
        return subprocess.run(
            [sys.executable, "-m", "bandstand", "serve", "painting.py", "--batch", *options],
            input=lines,
            capture_output=True,
            text=True,
            cwd=tmp_path,
            timeout=PATIENCE,
            check=False,
        )

    def test_a_file_is_served_and_its_capability_dies_alone(self, tmp_path: Path) -> None:
        def line(number: int, kind: str, type_name: str) -> str:
            return json.dumps(
                {"kind": kind, "type": type_name, "metadata": {"id": str(number), "timestamp": 0}}
            )

        lines = "\n".join(
            [
                line(1, "query", "Painter.Pid"),
                line(2, "command", "Painter.Die"),
                line(3, "query", "Painter.Pid"),
                line(4, "query", "Syscall.Ping"),
            ]
        )
        done = self.serve(tmp_path, lines + "\n", "--isolate", "Painter")
        assert done.returncode == 0, done.stderr
        said = [json.loads(each) for each in done.stdout.splitlines()]
        answers = {each["metadata"].get("causation"): each for each in said}
        assert len(said) == 5
        assert answers["2"]["type"] == "Sys.ActorCrash"
        assert "SIGKILL" in answers["2"]["data"]["message"]
        assert answers["1"]["data"] != answers["3"]["data"]
        # What it prints is for people, wherever it runs.
        assert done.stderr.count("painted") == 2

    def test_a_name_that_is_not_there_is_said(self, tmp_path: Path) -> None:
        done = self.serve(tmp_path, "", "--isolate", "Paintr")
        assert done.returncode == 1
        assert "did you mean Painter?" in done.stderr
        done = self.serve(tmp_path, "", "--isolate", "Xyz")
        assert "known: Memory, Painter" in done.stderr


PAINTING = '''
import os
from bandstand.bus import Capability, Command, Query, RestartLimits

class Pid(Query[int], type="Painter.Pid"):
    """Which process it is in."""

class Die(Command[None], type="Painter.Die"):
    """Die."""

class Painter(Capability):
    """Paints."""

    restarts = RestartLimits(backoff=None)

    def pid(self, msg: Pid) -> int:
        print("painted")
        return os.getpid()

    def die(self, msg: Die) -> None:
        os.kill(os.getpid(), 9)
'''
