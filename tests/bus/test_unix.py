"""The Unix socket: who may connect, whose it is, and what becomes of one that somebody left behind."""

from __future__ import annotations

import os
import select
import socket
import stat
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from bandstand.bus.adapters.unix import UnixAdapter
from bandstand.bus.client.config import MAX_SOCKET_PATH
from bandstand.errors import InvalidArgumentError, ListenError
from tests.bus.adapters import PATIENCE, Desk, open_descriptors

pytestmark = [pytest.mark.spec("C17"), pytest.mark.guarantee("G89"), pytest.mark.usefixtures("lane_loop")]


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


@asynccontextmanager
async def listening(path: Path | str) -> AsyncGenerator[UnixAdapter]:
    adapter = UnixAdapter(path)
    await adapter.start(Desk())
    yield adapter
    await adapter.close(1)


class TestWhoMayConnect:
    async def test_nobody_but_the_user(self, path: Path, mask: None) -> None:
        async with listening(path):
            assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
            assert stat.S_IMODE(os.stat(f"{path}.lock").st_mode) == 0o600
        assert os.listdir(path.parent) == []

    @pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is closed by not being listened at")
    async def test_not_even_for_a_moment(
        self, path: Path, mask: None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        modes: list[int] = []
        chmod = os.chmod

        def look(place: str, mode: int) -> None:
            modes.append(stat.S_IMODE(os.stat(place).st_mode))
            chmod(place, mode)

        monkeypatch.setattr(os, "chmod", look)
        async with listening(path):
            assert modes == [0o600]


class TestWhoseItIs:
    async def test_one_that_was_left_behind_is_taken_over(self, path: Path) -> None:
        leave_socket(path)
        async with listening(path):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))
        assert os.listdir(path.parent) == []

    async def test_one_of_ours_that_lives_is_left_alone(self, path: Path) -> None:
        async with listening(path):
            said = await refusal(UnixAdapter(path))
            assert said == (
                f"cannot listen at unix:{path}: another node uses it (it holds {path}.lock). "
                "Stop it first, or pass another path."
            )
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(path))

    async def test_somebody_elses_that_lives_is_left_alone(self, path: Path) -> None:
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

    @pytest.mark.parametrize("what", ["file", "directory", "link", "link to a socket"])
    async def test_what_is_no_socket_is_left_alone(self, path: Path, what: str) -> None:
        if what == "file":
            os.close(os.open(path, os.O_CREAT))
        elif what == "directory":
            os.mkdir(path)
        else:
            leave_socket(path.with_name("other.sock"))
            os.symlink("nowhere" if what == "link" else "other.sock", path)
        before = os.lstat(path)
        assert "a file that is not a socket is there already" in await refusal(UnixAdapter(path))
        assert os.lstat(path).st_ino == before.st_ino
        assert "bus.sock.lock" not in os.listdir(path.parent)

    async def test_what_somebody_has_put_in_its_place_is_left_alone(self, path: Path) -> None:
        async with listening(path):
            # So that the new one cannot get the number of the old one.
            os.rename(path, f"{path}.kept")
            os.mkdir(path)
        assert sorted(os.listdir(path.parent)) == ["bus.sock", "bus.sock.kept"]

    async def test_one_that_was_removed_is_not_missed(self, path: Path) -> None:
        async with listening(path):
            os.unlink(path)
            os.unlink(f"{path}.lock")

    async def test_it_is_removed_after_a_chdir(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(path.parent)
        async with listening("bus.sock") as adapter:
            assert adapter.name == "unix:bus.sock"
            monkeypatch.chdir("/")
        assert os.listdir(path.parent) == []

    @pytest.mark.slow
    @pytest.mark.parametrize("is_stale", [False, True], ids=["nothing there", "a stale one there"])
    def test_of_several_that_start_at_once_exactly_one_wins(self, path: Path, is_stale: bool) -> None:
        if is_stale:
            leave_socket(path)
        with ExitStack() as stack:
            rivals = [stack.enter_context(holder(path)) for _ in range(4)]
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
        assert os.listdir(path.parent) == []

    @pytest.mark.slow
    async def test_one_whose_process_was_killed_is_taken_over(self, path: Path) -> None:
        with holder(path) as process:
            assert heard(process) == "here\n"
            tell(process)
            assert heard(process) == "won\n"
        assert os.path.exists(path)  # noqa: ASYNC240  # nothing else runs
        async with listening(path):
            pass
        assert os.listdir(path.parent) == []


@contextmanager
def holder(path: Path) -> Generator[subprocess.Popen[str]]:
    """A process that listens there when it is told to, and is killed at the end."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command, pipe = [sys.executable, "-c", HOLDER, str(path)], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=environment) as process:
        yield process
        process.kill()


def heard(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    assert select.select([process.stdout], [], [], PATIENCE)[0]
    return process.stdout.readline()


def tell(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


class TestWhere:
    async def test_the_directory_must_be_there(self, tmp_path: Path) -> None:
        said = await refusal(UnixAdapter(tmp_path / "no" / "bus.sock"))
        assert said.endswith(f"the directory {tmp_path / 'no'} does not exist. Make it first.")
        (tmp_path / "file").touch()
        said = await refusal(UnixAdapter(tmp_path / "file" / "bus.sock"))
        assert said.endswith(f"{tmp_path / 'file'} is not a directory.")

    async def test_a_lock_that_is_a_link_is_not_followed(self, path: Path) -> None:
        path.with_name("bus.sock.lock").symlink_to(path.with_name("elsewhere"))
        assert "its lock is a symbolic link" in await refusal(UnixAdapter(path))
        assert "elsewhere" not in os.listdir(path.parent)

    @pytest.mark.parametrize("path", ["", "a\0b", b"bytes", None, 3])
    def test_what_is_no_name_is_refused(self, path: Any) -> None:
        with pytest.raises((InvalidArgumentError, TypeError)):
            UnixAdapter(path)

    def test_a_path_that_is_too_long_is_refused_in_a_sentence(self) -> None:
        with pytest.raises(
            InvalidArgumentError, match=rf"it has {MAX_SOCKET_PATH + 1} bytes, and the limit for a socket is"
        ):
            UnixAdapter("x" * (MAX_SOCKET_PATH + 1))

    async def test_the_longest_path_works(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        async with listening("x" * MAX_SOCKET_PATH):
            pass
        assert os.listdir(tmp_path) == []
