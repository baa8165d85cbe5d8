"""Whole programs that start processes: scripts of every kind, and parents that die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import pytest

from bandstand.errors import InvalidArgument
from bandstand.pod.process import check_guarded
from bandstand.pod.process.script import ALIAS, Script
from tests.pod.errands import PATIENCE, is_gone

pytestmark = [pytest.mark.spec("S19"), pytest.mark.real_time(reason="processes are real"), pytest.mark.slow]

ROOT = Path(__file__).resolve().parents[2]

# What a program declares, and what its child does with it: says something of its own in reply.
DECLARATIONS = """
import asyncio
import sys
from dataclasses import dataclass

from bandstand.pod.process import spawn_child

@dataclass
class Colour:
    name: str

palette = []

def mix(name):
    palette.append(name)
    return Colour("+".join(palette))

async def paint(control, colour):
    mix(colour.name)
    # Functions and others see the same names.
    assert sys.modules["__main__"].palette is palette == [colour.name]
    control.send(mix("white"))

async def begin(target):
    child = await spawn_child(target, name="painter", payload=Colour("red"))
    letter = await child.control.receive()
    print(letter.word, type(letter.word) is Colour, (await child.wait()).sentence, flush=True)
"""

GUARDED = (
    DECLARATIONS
    + """
if __name__ == "__main__":
    asyncio.run(begin("__main__:paint"))
"""
)

UNGUARDED = (
    DECLARATIONS
    + """
try:
    asyncio.run(begin("__main__:paint"))
except Exception as error:
    print(type(error).__name__, error, flush=True)
    raise
"""
)

SAID = "Colour(name='red+white') True exit code 0\n"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run(
    *arguments: str, cwd: Path, program: str | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run Python."""
    done = subprocess.run(
        [sys.executable, *arguments],
        input=program,
        cwd=cwd,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


# -- scripts -----------------------------------------------------------------------------------------------------------


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_script_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "painting.py").write_text(GUARDED, "utf-8")
    assert run("painting.py", cwd=tmp_path).stdout == SAID
    assert run(str(tmp_path / "painting.py"), cwd=Path("/")).stdout == SAID


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_script_whose_name_has_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "painting").write_text(GUARDED, "utf-8")
    assert run("painting", cwd=tmp_path).stdout == SAID


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "__init__.py").touch()
    (tmp_path / "gallery" / "names.py").write_text("NAME = 'red'\n", "utf-8")
    relative = GUARDED.replace("import sys\n", "import sys\nfrom .names import NAME\n", 1)
    (tmp_path / "gallery" / "painting.py").write_text(relative, "utf-8")
    assert run("-m", "gallery.painting", cwd=tmp_path).stdout == SAID


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_package_that_is_run_declares_in_its_modules(tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "__init__.py").touch()
    (tmp_path / "gallery" / "painting.py").write_text(
        DECLARATIONS.replace('["__main__"]', "[__name__]"), "utf-8"
    )
    program = """
    import asyncio
    from gallery.painting import begin
    asyncio.run(begin("gallery.painting:paint"))
    """
    (tmp_path / "gallery" / "__main__.py").write_text(dedent(program), "utf-8")
    assert run("-m", "gallery", cwd=tmp_path).stdout == SAID


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_child_can_have_children(tmp_path: Path) -> None:
    program = GUARDED.replace(
        "    mix(colour.name)\n",
        """    if colour.name == "red":
        child = await spawn_child("__main__:paint", name="grandchild", payload=Colour("blue"))
        assert (await child.control.receive()).word == Colour("blue+white")
        assert (await child.wait()).is_clean
    mix(colour.name)
""",
    )
    (tmp_path / "painting.py").write_text(program, "utf-8")
    assert run("painting.py", cwd=tmp_path).stdout == SAID


@pytest.mark.once
@pytest.mark.guarantee("G138")
@pytest.mark.parametrize("way", ["-c", "stdin"])
def test_what_is_declared_in_no_file_is_not_known(way: str, tmp_path: Path) -> None:
    program = UNGUARDED.replace("__main__:paint", "tests.pod.errands:echo")
    done = (
        run("-c", program, cwd=tmp_path, code=1)
        if way == "-c"
        else run("-", cwd=tmp_path, program=program, code=1)
    )
    assert done.stdout.startswith(
        "StartFailed process 'painter' did not start: what came with the errand cannot be read here: "
        "AttributeError: Can't get attribute 'Colour'"
    )
    assert "is not known in another process: put it into a module" in done.stderr


@pytest.mark.once
@pytest.mark.guarantee("G138")
@pytest.mark.parametrize("way", ["-c", "stdin"])
def test_a_program_in_no_file_can_start_what_is_in_one(way: str, tmp_path: Path) -> None:
    program = """
    import asyncio
    from bandstand.pod.process import spawn_child

    async def main():
        child = await spawn_child("tests.pod.errands:echo", name="painter", payload="red")
        print((await child.control.receive()).word)
        await child.close()

    asyncio.run(main())
    """
    done = (
        run("-c", dedent(program), cwd=tmp_path)
        if way == "-c"
        else run("-", cwd=tmp_path, program=dedent(program))
    )
    assert done.stdout == "red\n"


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_script_that_is_not_guarded_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "painting.py").write_text(UNGUARDED, "utf-8")
    done = run("painting.py", cwd=tmp_path, code=1)
    sentence = (
        f"process 'painter' cannot be started here: {tmp_path / 'painting.py'} is being imported by a process that it has started "
        f'itself; put what it does below `if __name__ == "__main__":`, and leave only declarations above'
    )
    # The child has said it, and so has the parent.
    assert done.stdout == (
        f"InvalidArgument {sentence}\nStartFailed process 'painter' did not start: {sentence}\n"
    )


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_script_that_ends_the_process_is_told_so(tmp_path: Path) -> None:
    program = GUARDED + "\nelse:\n    sys.exit(0)\n"
    (tmp_path / "painting.py").write_text(program, "utf-8")
    done = run("painting.py", cwd=tmp_path, code=1)
    assert (
        "ends the process (SystemExit(0)) when it is imported: put what it does below `if __name__"
        in done.stderr
    )


@pytest.mark.once
def test_a_script_that_fails_is_a_failed_start(tmp_path: Path) -> None:
    program = GUARDED + "\nelse:\n    raise ValueError('no colours')\n"
    (tmp_path / "painting.py").write_text(program, "utf-8")
    done = run("painting.py", cwd=tmp_path, code=1)
    assert "StartFailed: process 'painter' did not start: ValueError: no colours" in done.stderr


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_flags_reach_the_child_and_standard_input_does_not(tmp_path: Path) -> None:
    program = """
    import asyncio
    from bandstand.pod.process import spawn_child

    async def main():
        child = await spawn_child("tests.pod.errands:describe", name="painter")
        seen = (await child.control.receive()).word
        print(seen["optimize"], seen["utf8"], seen["warnoptions"], seen["stdin"], (await child.wait()).sentence)

    if __name__ == "__main__":
        asyncio.run(main())
    """
    (tmp_path / "program.py").write_text(dedent(program), "utf-8")
    done = run(
        "-OO",
        "-X",
        "utf8=1",
        "-W",
        "ignore::FutureWarning",
        "program.py",
        cwd=tmp_path,
        program="not for the child",
    )
    assert done.stdout == "2 1 ['ignore::FutureWarning'] True exit code 0\n"


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_multiprocessing_is_left_as_it_was(tmp_path: Path) -> None:
    program = GUARDED + "    import multiprocessing\n    multiprocessing.set_start_method('spawn')\n"
    (tmp_path / "painting.py").write_text(program, "utf-8")
    assert run("painting.py", cwd=tmp_path).stdout == SAID


# -- the same, from inside ---------------------------------------------------------------------------------------------


@pytest.fixture
def mains() -> Generator[None]:
    """Have the modules that are called main as they were."""
    before = {name: sys.modules.get(name) for name in ("__main__", ALIAS)}
    yield
    for name, module in before.items():
        if module is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = module


@pytest.mark.usefixtures("mains")
def test_a_script_is_loaded_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "painting.py"
    path.write_text("class Colour: pass\nname = __name__\n", "utf-8")
    Script(path=str(path)).load()
    main = sys.modules["__main__"]
    assert sys.modules[ALIAS] is main
    assert main.name == main.Colour.__module__ == ALIAS
    assert Script.here() == Script(path=str(path))
    check_guarded("anything")


@pytest.mark.usefixtures("mains")
@pytest.mark.parametrize("has_alias", [True, False])
@pytest.mark.parametrize("text", ["check_guarded('troupe Studio')", "sys.exit(3)"])
def test_a_script_that_fails_changes_nothing(tmp_path: Path, text: str, has_alias: bool) -> None:
    path = tmp_path / "painting.py"
    path.write_text(f"import sys\nfrom bandstand.pod.process import check_guarded\n{text}\n", "utf-8")
    if has_alias:
        sys.modules[ALIAS] = sys.modules["__main__"]
    else:
        sys.modules.pop(ALIAS, None)
    before = sys.modules["__main__"], sys.modules.get(ALIAS)
    with pytest.raises(InvalidArgument, match=f"{path}.*__name__ == "):
        Script(path=str(path)).load()
    assert (sys.modules["__main__"], sys.modules.get(ALIAS)) == before
    check_guarded("anything")


@pytest.mark.usefixtures("mains")
def test_modules_are_found_by_name_or_not() -> None:
    Script(module="tests.pod.errands").load()
    main = sys.modules["__main__"]
    assert main.__spec__ is not None
    assert main.echo.__module__ == ALIAS
    assert Script.here() == Script(module="tests.pod.errands")
    with pytest.raises(ImportError, match=r"^tests.nowhere is not there, or is no Python module"):
        Script(module="tests.nowhere").load()
    with pytest.raises(ImportError, match=r"^sys is not there, or is no Python module"):
        Script(module="sys").load()


@pytest.mark.usefixtures("mains")
def test_what_is_in_no_file_is_not_loaded() -> None:
    before = sys.modules["__main__"]
    Script().load()
    assert sys.modules["__main__"] is before


# -- parents that die --------------------------------------------------------------------------------------------------

PARENT = """
import asyncio, sys, threading
from bandstand.pod.process import spawn_child

async def main(target):
    child = await spawn_child(f"tests.pod.errands:{target}", name="painter")
    await child.control.receive()
    print(child.pid, flush=True)
    await child.wait()

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
"""

# A thread that runs an event loop, starts a process there, and ends without a word. The process itself goes on.
THREADED = """
import asyncio, sys, threading, warnings
from bandstand.pod.process import spawn_child

kept = []

async def main(target):
    child = await spawn_child(f"tests.pod.errands:{target}", name="painter")
    await child.control.receive()
    kept.append(child)
    print(child.pid, flush=True)
    sys.stdin.read(1)

def live():
    loop = asyncio.new_event_loop()
    kept.append(loop)
    loop.run_until_complete(main(sys.argv[1]))

if __name__ == "__main__":
    thread = threading.Thread(target=live)
    thread.start()
    thread.join()
    sys.stdin.readline()
"""


@contextmanager
def parent_of(program: str, target: str, folder: Path) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A program that has started a process, and the number of that."""
    (folder / "program.py").write_text(program, "utf-8")
    with subprocess.Popen(
        [sys.executable, "program.py", target],
        cwd=folder,
        env=environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            pid = int(process.stdout.readline())
            yield process, pid
        finally:
            process.kill()


@pytest.mark.once
@pytest.mark.guarantee("G140")
@pytest.mark.parametrize("target", ["wait", "spin"])
def test_a_killed_parent_takes_its_child_with_it(target: str, tmp_path: Path) -> None:
    with parent_of(PARENT, target, tmp_path) as (parent, pid):
        parent.kill()
        assert is_gone(pid)


@pytest.mark.once
@pytest.mark.guarantee("G140")
@pytest.mark.parametrize("target", ["wait", "spin"])
def test_a_thread_that_ends_takes_the_child_with_it_that_it_has_started(target: str, tmp_path: Path) -> None:
    with parent_of(THREADED, target, tmp_path) as (parent, pid):
        assert parent.stdin is not None
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert is_gone(pid)
        assert parent.poll() is None


@pytest.mark.once
@pytest.mark.guarantee("G140")
def test_ctrl_c_for_all_ends_the_parent_and_it_ends_the_child(tmp_path: Path) -> None:
    with parent_of(PARENT, "spin", tmp_path) as (parent, pid):
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.wait(PATIENCE) == -signal.SIGINT
        assert is_gone(pid)
