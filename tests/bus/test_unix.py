"""The Unix socket: who may connect, whose it is, and what becomes of one that somebody left behind."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus.adapters.unix import UnixAdapter
from bandstand.bus.client.config import MAX_SOCKET_PATH
from bandstand.errors import InvalidArgumentError, ListenError
from tests.bus.adapters import PATIENCE, Desk, open_descriptors
from tests.core.support import HostFactory

pytestmark = [pytest.mark.spec("C17"), pytest.mark.guarantee("G89")]

Play = Callable[[Callable[[], Coroutine[Any, Any, None]]], None]

HOLDER = """
import asyncio, sys
from bandstand.bus.adapters.unix import UnixAdapter
from bandstand.errors import ListenError
from tests.bus.adapters import Desk

async def main():
    sys.stdout.write("here\\n"); sys.stdout.flush()
    sys.stdin.readline()
    adapter = UnixAdapter(sys.argv[1])
    try:
        await adapter.start(Desk())
    except ListenError as error:
        sys.stdout.write(f"lost: {error}\\n"); sys.stdout.flush()
        return
    sys.stdout.write("won\\n"); sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    await adapter.close(1)

asyncio.run(main())
"""


@pytest.fixture
def play(loop_factory: HostFactory) -> Play:
    def play(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(body())

    return play


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "bus.sock"


@pytest.fixture
def mask() -> Iterator[None]:
    """A umask that takes nothing away."""
    before = os.umask(0)
    yield
    os.umask(before)


def leave_socket(path: Path) -> None:
    """A socket at which nobody listens any more."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


async def refusal(adapter: UnixAdapter) -> str:
    before = open_descriptors()
    with pytest.raises(ListenError) as caught:
        await adapter.start(Desk())
    assert isinstance(caught.value, OSError)
    assert open_descriptors() == before
    assert not adapter.can_produce
    return str(caught.value)


class TestWhoMayConnect:
    def test_nobody_but_the_user(self, play: Play, path: Path, mask: None) -> None:
        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(f"{path}.lock").st_mode) == 0o600
            await adapter.close(1)
            assert os.listdir(path.parent) == []

        play(body)

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is closed by not being listened at")
    def test_not_even_for_a_moment(
        self, play: Play, path: Path, mask: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modes: list[int] = []
        chmod = os.chmod

        def look(place: str, mode: int) -> None:
            modes.append(stat.S_IMODE(os.stat(place).st_mode))
            chmod(place, mode)

        monkeypatch.setattr(os, "chmod", look)

        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            await adapter.close(1)

        play(body)
        assert modes == [0o600]


class TestWhoseItIs:
    def test_one_that_was_left_behind_is_taken_over(self, play: Play, path: Path) -> None:
        leave_socket(path)

        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            await adapter.close(1)
            assert os.listdir(path.parent) == []

        play(body)

    def test_a_lock_that_was_left_behind_holds_up_nobody(self, play: Play, path: Path) -> None:
        path.with_name("bus.sock.lock").touch()

        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            await adapter.close(1)
            assert os.listdir(path.parent) == []

        play(body)

    def test_one_of_ours_that_lives_is_left_alone(self, play: Play, path: Path) -> None:
        async def body() -> None:
            first = UnixAdapter(path)
            await first.start(Desk())
            said = await refusal(UnixAdapter(path))
            assert said == (
                f"cannot listen at unix:{path}: another node uses it (it holds {path}.lock). Stop it first, or pass "
                f"another path."
            )
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            await first.close(1)

        play(body)

    def test_somebody_elses_that_lives_is_left_alone(self, play: Play, path: Path) -> None:
        async def body() -> None:
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(path))
                other.listen(0)
                # Two fill it: one that is full lives just as well.
                others = [socket.socket(socket.AF_UNIX) for _ in range(2)]
                for client in others:
                    client.settimeout(0)
                    assert "another process listens there already" in await refusal(UnixAdapter(path))
                    client.connect_ex(str(path))
                for client in others:
                    client.close()
            assert os.listdir(path.parent) == ["bus.sock"]

        play(body)

    @pytest.mark.parametrize("what", ["file", "directory", "link", "link to a socket"])
    def test_what_is_no_socket_is_left_alone(self, play: Play, path: Path, what: str) -> None:
        if what == "file":
            path.write_text("precious")
        elif what == "directory":
            path.mkdir()
        elif what == "link":
            path.symlink_to("nowhere")
        else:
            leave_socket(path.with_name("other.sock"))
            path.symlink_to("other.sock")
        before = os.lstat(path)

        async def body() -> None:
            assert "a file that is not a socket is there already" in await refusal(UnixAdapter(path))
            assert os.lstat(path).st_ino == before.st_ino
            assert "bus.sock.lock" not in os.listdir(path.parent)

        play(body)

    def test_what_somebody_has_put_in_its_place_is_left_alone(self, play: Play, path: Path) -> None:
        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            # So that the new one cannot get the number of the old one.
            os.rename(path, f"{path}.kept")
            os.mkdir(path)
            await adapter.close(1)
            assert sorted(os.listdir(path.parent)) == ["bus.sock", "bus.sock.kept"]

        play(body)

    def test_one_that_was_removed_is_not_missed(self, play: Play, path: Path) -> None:
        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            os.unlink(path)
            os.unlink(f"{path}.lock")
            await adapter.close(1)

        play(body)

    def test_it_is_removed_wherever_the_process_has_gone(
        self, play: Play, path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(path.parent)

        async def body() -> None:
            adapter = UnixAdapter("bus.sock")
            await adapter.start(Desk())
            assert adapter.name == "unix:bus.sock"
            monkeypatch.chdir("/")
            await adapter.close(1)
            assert os.listdir(path.parent) == []

        play(body)

    @pytest.mark.slow
    @pytest.mark.parametrize("is_stale", [False, True], ids=["nothing there", "a stale one there"])
    def test_of_several_that_start_at_once_exactly_one_wins(self, path: Path, is_stale: bool) -> None:
        if is_stale:
            leave_socket(path)
        rivals = [
            subprocess.Popen(
                [sys.executable, "-c", HOLDER, str(path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            )
            for _ in range(4)
        ]
        try:
            assert [heard(rival) for rival in rivals] == ["here\n"] * 4
            for rival in rivals:
                tell(rival)
            said = [heard(rival) for rival in rivals]
            assert said.count("won\n") == 1
            assert sum("another node uses it" in line for line in said) == 3
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
            tell(rivals[said.index("won\n")])
            assert [rival.wait(PATIENCE) for rival in rivals] == [0] * 4
        finally:
            for rival in rivals:
                rival.kill()
                rival.wait(PATIENCE)
                for pipe in (rival.stdin, rival.stdout):
                    assert pipe is not None
                    pipe.close()
        assert os.listdir(path.parent) == []

    @pytest.mark.slow
    def test_one_whose_process_was_killed_is_taken_over(self, play: Play, path: Path) -> None:
        with subprocess.Popen(
            [sys.executable, "-c", HOLDER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        ) as holder:
            assert heard(holder) == "here\n"
            tell(holder)
            assert heard(holder) == "won\n"
            holder.kill()
        assert path.exists()

        async def body() -> None:
            adapter = UnixAdapter(path)
            await adapter.start(Desk())
            await adapter.close(1)
            assert os.listdir(path.parent) == []

        play(body)


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0]
    return process.stdout.readline()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


class TestWhere:
    def test_the_directory_must_be_there(self, play: Play, tmp_path: Path) -> None:
        async def body() -> None:
            said = await refusal(UnixAdapter(tmp_path / "no" / "bus.sock"))
            assert said.endswith(f"the directory {tmp_path / 'no'} does not exist. Make it first.")
            (tmp_path / "file").touch()
            said = await refusal(UnixAdapter(tmp_path / "file" / "bus.sock"))
            assert said.endswith(f"{tmp_path / 'file'} is not a directory.")

        play(body)

    def test_a_lock_that_is_a_link_is_not_followed(self, play: Play, path: Path) -> None:
        path.with_name("bus.sock.lock").symlink_to(path.with_name("elsewhere"))

        async def body() -> None:
            assert "its lock is a symbolic link" in await refusal(UnixAdapter(path))
            assert "elsewhere" not in os.listdir(path.parent)

        play(body)

    @pytest.mark.parametrize("path", ["", "a\0b", b"bytes", None, 3])
    def test_what_is_no_name_is_refused(self, path: Any) -> None:
        with pytest.raises((InvalidArgumentError, TypeError)):
            UnixAdapter(path)

    def test_a_path_that_is_too_long_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(
            InvalidArgumentError, match=rf"it has {MAX_SOCKET_PATH + 1} bytes, and the limit for a socket is"
        ):
            UnixAdapter("x" * (MAX_SOCKET_PATH + 1))

    def test_a_path_that_is_just_short_enough_works(
        self, play: Play, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)

        async def body() -> None:
            adapter = UnixAdapter("x" * MAX_SOCKET_PATH)
            await adapter.start(Desk())
            await adapter.close(1)
            assert os.listdir(tmp_path) == []

        play(body)
