"""Programs that start child processes: all kinds of main modules, and parents that end first."""

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

from bandstand.errors import InvalidArgumentError
from bandstand.pod.process import check_main_guard
from bandstand.pod.process.main_module import MAIN_ALIAS, MainModule
from tests.pod.child_targets import PATIENCE, is_gone

pytestmark = [
    pytest.mark.spec("S19"),
    pytest.mark.real_time(reason="processes run in real time"),
    pytest.mark.slow,
]

ROOT = Path(__file__).resolve().parents[2]

# What a program declares. Its child answers with an object of a class of the program.
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
    message = await child.control.receive()
    print(message.body, type(message.body) is Colour, (await child.wait()).reason, flush=True)
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

OUTPUT = "Colour(name='red+white') True exit code 0\n"


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}


def run(
    *arguments: str, cwd: Path, program: str | None = None, code: int = 0
) -> subprocess.CompletedProcess[str]:
    """Run Python with a program."""
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
    assert run("painting.py", cwd=tmp_path).stdout == OUTPUT
    assert run(str(tmp_path / "painting.py"), cwd=Path("/")).stdout == OUTPUT


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_script_whose_name_has_no_suffix(tmp_path: Path) -> None:
    (tmp_path / "painting").write_text(GUARDED, "utf-8")
    assert run("painting", cwd=tmp_path).stdout == OUTPUT


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_module(tmp_path: Path) -> None:
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "__init__.py").touch()
    (tmp_path / "gallery" / "names.py").write_text("NAME = 'red'\n", "utf-8")
    relative = GUARDED.replace("import sys\n", "import sys\nfrom .names import NAME\n", 1)
    (tmp_path / "gallery" / "painting.py").write_text(relative, "utf-8")
    assert run("-m", "gallery.painting", cwd=tmp_path).stdout == OUTPUT


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_package_that_declares_in_its_modules(tmp_path: Path) -> None:
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
    assert run("-m", "gallery", cwd=tmp_path).stdout == OUTPUT


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_a_child_can_have_children(tmp_path: Path) -> None:
    program = GUARDED.replace(
        "    mix(colour.name)\n",
        """    if colour.name == "red":
        child = await spawn_child("__main__:paint", name="grandchild", payload=Colour("blue"))
        assert (await child.control.receive()).body == Colour("blue+white")
        assert (await child.wait()).is_clean
    mix(colour.name)
""",
    )
    (tmp_path / "painting.py").write_text(program, "utf-8")
    assert run("painting.py", cwd=tmp_path).stdout == OUTPUT


@pytest.mark.once
@pytest.mark.guarantee("G138")
@pytest.mark.parametrize("way", ["-c", "stdin"])
def test_a_child_does_not_know_the_declarations_of_a_program_without_a_file(way: str, tmp_path: Path) -> None:
    program = UNGUARDED.replace("__main__:paint", "tests.pod.child_targets:echo")
    done = (
        run("-c", program, cwd=tmp_path, code=1)
        if way == "-c"
        else run("-", cwd=tmp_path, program=program, code=1)
    )
    assert done.stdout.startswith(
        "StartError process 'painter' did not start: the payload cannot be unpickled: "
        "AttributeError: Can't get attribute 'Colour'"
    )
    assert "or in the __main__.py of a package: put it into a module" in done.stderr


@pytest.mark.once
@pytest.mark.guarantee("G138")
@pytest.mark.parametrize("way", ["-c", "stdin"])
def test_a_program_without_a_file_can_run_a_function_of_a_module(way: str, tmp_path: Path) -> None:
    program = """
    import asyncio
    from bandstand.pod.process import spawn_child

    async def main():
        child = await spawn_child("tests.pod.child_targets:echo", name="painter", payload="red")
        print((await child.control.receive()).body)
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
def test_a_script_without_a_guarded_main_block_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "painting.py").write_text(UNGUARDED, "utf-8")
    done = run("painting.py", cwd=tmp_path, code=1)
    reason = (
        f"process 'painter' cannot be started here: {tmp_path / 'painting.py'} is being imported by a process that it has started "
        f'itself; put what it does below `if __name__ == "__main__":`, and leave only declarations above'
    )
    # The child prints it first, and the parent after that.
    assert done.stdout == (
        f"InvalidArgumentError {reason}\nStartError process 'painter' did not start: {reason}\n"
    )


@pytest.mark.once
@pytest.mark.guarantee("G138")
@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("sys.exit(0)", "ends the process (SystemExit(0)) when it is imported: put what it does below `if"),
        ("raise ValueError('no colours')", "process 'painter' did not start: ValueError: no colours"),
    ],
)
def test_a_script_that_cannot_be_imported_is_an_error(tmp_path: Path, statement: str, words: str) -> None:
    (tmp_path / "painting.py").write_text(f"{GUARDED}\nelse:\n    {statement}\n", "utf-8")
    assert words in run("painting.py", cwd=tmp_path, code=1).stderr


@pytest.mark.once
@pytest.mark.guarantee("G138")
def test_flags_reach_the_child_and_standard_input_does_not(tmp_path: Path) -> None:
    program = """
    import asyncio
    from bandstand.pod.process import spawn_child

    async def main():
        child = await spawn_child("tests.pod.child_targets:describe", name="painter")
        seen = (await child.control.receive()).body
        print(seen["optimize"], seen["utf8"], seen["warnoptions"], seen["stdin"], (await child.wait()).reason)

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
def test_the_start_method_of_multiprocessing_is_not_fixed(tmp_path: Path) -> None:
    program = GUARDED + "    import multiprocessing\n    multiprocessing.set_start_method('spawn')\n"
    (tmp_path / "painting.py").write_text(program, "utf-8")
    assert run("painting.py", cwd=tmp_path).stdout == OUTPUT


# -- main modules -------------------------------------------------------------------------------------------


@pytest.fixture
def mains() -> Generator[None]:
    """Restore the main modules after the test."""
    before = {name: sys.modules.get(name) for name in ("__main__", MAIN_ALIAS)}
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
    MainModule(path=str(path)).load()
    main = sys.modules["__main__"]
    assert sys.modules[MAIN_ALIAS] is main
    assert main.name == main.Colour.__module__ == MAIN_ALIAS
    assert MainModule.current() == MainModule(path=str(path))
    check_main_guard("anything")


@pytest.mark.usefixtures("mains")
@pytest.mark.parametrize("has_alias", [True, False])
@pytest.mark.parametrize("text", ["check_main_guard('troupe Studio')", "sys.exit(3)"])
def test_a_script_that_fails_changes_nothing(tmp_path: Path, text: str, has_alias: bool) -> None:
    path = tmp_path / "painting.py"
    path.write_text(f"import sys\nfrom bandstand.pod.process import check_main_guard\n{text}\n", "utf-8")
    if has_alias:
        sys.modules[MAIN_ALIAS] = sys.modules["__main__"]
    else:
        sys.modules.pop(MAIN_ALIAS, None)
    before = sys.modules["__main__"], sys.modules.get(MAIN_ALIAS)
    with pytest.raises(InvalidArgumentError, match=f"{path}.*__name__ == "):
        MainModule(path=str(path)).load()
    assert (sys.modules["__main__"], sys.modules.get(MAIN_ALIAS)) == before
    check_main_guard("anything")


@pytest.mark.usefixtures("mains")
def test_a_module_is_loaded_by_name() -> None:
    MainModule(module="tests.pod.child_targets").load()
    main = sys.modules["__main__"]
    assert main.__spec__ is not None
    assert main.echo.__module__ == MAIN_ALIAS
    assert MainModule.current() == MainModule(module="tests.pod.child_targets")
    with pytest.raises(ImportError, match=r"^tests.nowhere does not exist or is not a Python module"):
        MainModule(module="tests.nowhere").load()
    with pytest.raises(ImportError, match=r"^sys does not exist or is not a Python module"):
        MainModule(module="sys").load()


@pytest.mark.usefixtures("mains")
def test_a_program_without_a_file_is_not_loaded() -> None:
    before = sys.modules["__main__"]
    MainModule().load()
    assert sys.modules["__main__"] is before


# -- parents that end --------------------------------------------------------------------------------------------------

PARENT = """
import asyncio, sys, threading
from bandstand.pod.process import spawn_child

async def main(target):
    child = await spawn_child(f"tests.pod.child_targets:{target}", name="painter")
    await child.control.receive()
    print(child.pid, flush=True)
    await child.wait()

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
"""

# A thread that runs an event loop, starts a child there, and ends. The parent process continues.
THREADED = """
import asyncio, sys, threading, warnings
from bandstand.pod.process import spawn_child

kept = []

async def main(target):
    child = await spawn_child(f"tests.pod.child_targets:{target}", name="painter")
    await child.control.receive()
    kept.append(child)
    print(child.pid, flush=True)
    sys.stdin.read(1)

def run():
    loop = asyncio.new_event_loop()
    kept.append(loop)
    loop.run_until_complete(main(sys.argv[1]))

if __name__ == "__main__":
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    sys.stdin.readline()
"""


@contextmanager
def parent_of(program: str, target: str, folder: Path) -> Generator[tuple[subprocess.Popen[str], int]]:
    """A program that has started a child process, and the pid of that."""
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
def test_a_child_ends_when_its_parent_is_killed(target: str, tmp_path: Path) -> None:
    with parent_of(PARENT, target, tmp_path) as (parent, pid):
        parent.kill()
        assert is_gone(pid)


@pytest.mark.once
@pytest.mark.guarantee("G140")
@pytest.mark.parametrize("target", ["wait", "spin"])
def test_a_child_ends_when_the_thread_ends_that_has_started_it(target: str, tmp_path: Path) -> None:
    with parent_of(THREADED, target, tmp_path) as (parent, pid):
        assert parent.stdin is not None
        parent.stdin.write("\n")
        parent.stdin.flush()
        assert is_gone(pid)
        assert parent.poll() is None


@pytest.mark.once
@pytest.mark.guarantee("G140")
def test_ctrl_c_to_the_process_group_ends_the_parent_and_with_it_the_child(tmp_path: Path) -> None:
    with parent_of(PARENT, "spin", tmp_path) as (parent, pid):
        os.killpg(parent.pid, signal.SIGINT)
        assert parent.wait(PATIENCE) == -signal.SIGINT
        assert is_gone(pid)
