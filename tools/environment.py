"""Create the virtual environments of the make targets, and keep them up to date.

    python tools/environment.py            the main one, .venv, with everything
    python tools/environment.py --run      the same with the dependencies of bandstand only, and no development tools. The first time it does not
                                           wait for the compiler, which runs in the background. Prints the value of BANDSTAND_PURE for what
                                           runs now: 1 or 0
    python tools/environment.py --peers    .venvs/bench, with the libraries that the benchmark compares bandstand with
    python tools/environment.py --peers-full    the same with Ray, which is large
    python tools/environment.py --find     list the interpreters of 3.11-3.13 on this machine

There are four steps: the dependencies (requirements/run.txt), the tools (requirements/*.txt), the package (pyproject.toml) and the
compiled modules (their sources and setup.py). A step runs only if its inputs have changed since. It compares digests and not file times, so
a fresh checkout of the same commit needs no work. Environments share the folder `build`, so only one process works on them at a time. This script uses the
standard library only: it runs before anything is installed.
"""

from __future__ import annotations

import argparse
import fcntl
import glob
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "src" / "bandstand"
VERSIONS = ("3.11", "3.12", "3.13")
BUILD = ROOT / "build"
LOG = BUILD / "compile.log"

Step: TypeAlias = Callable[[Path, Path, str], None]
"""A step in an environment: takes its Python, its folder and the name of its requirements."""

_PROBE = """
import ensurepip, os, sys, sysconfig, venv
assert sys.implementation.name == "cpython"
assert os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")), "no Python.h"
print("%d.%d" % sys.version_info[:2], "%d.%d.%d" % sys.version_info[:3])
"""


@dataclass(frozen=True)
class Interpreter:
    """A Python that works, can create environments, and has the headers for building extensions."""

    version: str
    release: str
    path: str

    @property
    def folder(self) -> Path:
        """The folder of its environment, if it is not the main one."""
        return ROOT / ".venvs" / self.version


def find_interpreters() -> dict[str, Interpreter]:
    """Return the usable interpreters by version, the first one found of each.

    A name on the PATH is not enough: it can be the shim of a version manager without a Python behind it.
    """
    found: dict[str, Interpreter] = {}
    candidates = [f"python{version}" for version in VERSIONS] + ["python3"]
    for version in VERSIONS:
        candidates += sorted(
            glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python")), reverse=True
        )
    for name in candidates:
        path = shutil.which(name)
        if path is None:
            continue
        probe = subprocess.run([path, "-c", _PROBE], capture_output=True, text=True, check=False)
        version, _, release = probe.stdout.strip().partition(" ")
        if probe.returncode == 0 and version in VERSIONS and version not in found:
            found[version] = Interpreter(version, release, path)
    return dict(sorted(found.items()))


def prepare(python: str, folder: Path, requirements: str) -> Path:
    """Bring one environment up to date and return its Python."""
    with alone():
        return _run_steps(steps_for(requirements), python, folder, requirements)


def prepare_to_run(python: str, folder: Path) -> bool:
    """Bring an environment up to date, and return whether it is compiled.

    If nothing was compiled before, it does not wait for the compiler: what runs now is interpreted, and a process in the background
    compiles for the next time.
    """
    *installation, (_, digest, _) = steps_for("run")
    inside = folder / "bin" / "python"
    done = _steps_done(folder)
    if not inside.exists() or any(done.get(name) != wanted for name, wanted, _ in installation):
        with alone():
            _run_steps(installation, python, folder, "run")
    if _steps_done(folder).get("extensions") == digest and all(_extensions(inside).values()):
        return True
    if any(_extensions(inside).values()):
        prepare(python, folder, "run")
        return True
    _say(f"{folder.name}: this runs interpreted, with the same behaviour, but several times slower")
    _say(f"{folder.name}: a process in the background compiles for the next time ({LOG.relative_to(ROOT)})")
    compile_in_background()
    return False


def compile_in_background() -> None:
    """Start a process that compiles. It outlives this one, and yields to other processes."""
    BUILD.mkdir(exist_ok=True)
    with LOG.open("a") as log:
        # In its own session, so that Ctrl-C ends what runs in the terminal, but not the compiler.
        subprocess.Popen(
            [sys.executable, __file__, "--run", "--compile"],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


@contextmanager
def alone() -> Generator[None, None, None]:
    """Wait until no other process works on the environments, and keep others waiting."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "environments.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say(
                f"waiting for another process that installs or compiles ({LOG.relative_to(ROOT)} may have its output)"
            )
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def steps_for(requirements: str) -> list[tuple[str, str, Step]]:
    """Return the steps for these requirements in order: name, digest of the inputs, and the step itself."""
    # The dependencies are a separate step, so that `make run` after `make test` finds it done and undoes nothing.
    steps: list[tuple[str, str, Step]] = [("run", _tools_digest("run"), _install_dependencies)]
    if requirements != "run":
        steps.append(("tools", _tools_digest(requirements), _install_tools))
    return [
        *steps,
        ("package", _package_digest(), _install_package),
        ("extensions", _extensions_digest(), _build_extensions),
    ]


def prepare_peers(python: str, requirements: str = "peers") -> None:
    """Bring the environment of the benchmark's peers up to date. If that fails, the benchmark runs without them."""
    folder = ROOT / ".venvs" / "bench"
    try:
        with alone():
            _run_steps(
                (("tools", _tools_digest(requirements), _install_tools),), python, folder, requirements
            )
    except SystemExit as failure:
        _say(f"{folder.name}: {failure}")
        _say(f"{folder.name}: the benchmark runs without requirements/{requirements}.txt")


def _run_steps(steps: Iterable[tuple[str, str, Step]], python: str, folder: Path, requirements: str) -> Path:
    """Run the steps that are due, creating the environment first if needed; return its Python."""
    started = time.monotonic()
    notes = _notes(folder)
    done = _steps_done(folder)
    inside = folder / "bin" / "python"
    if not done or not inside.exists():
        done = {}
        _say(f"{folder.name}: creating the environment with {python}")
        _run([python, "-m", "venv", "--clear", str(folder)])
    for name, wanted, step in steps:
        # An extension that was deleted is built again.
        if done.get(name) == wanted and (name != "extensions" or all(_extensions(inside).values())):
            continue
        if done.pop(name, None) is not None:
            # If the step fails half-way, the environment is in neither the old nor the new state.
            notes.write_text(json.dumps(done, indent=1), "utf-8")
        step(inside, folder, requirements)
        done[name] = wanted
        notes.write_text(json.dumps(done, indent=1), "utf-8")
    took = time.monotonic() - started
    if took > 1:
        _say(f"{folder.name}: ready after {took:.0f} s")
    return inside


def _notes(folder: Path) -> Path:
    return folder / ".prepared.json"


def _steps_done(folder: Path) -> dict[str, str]:
    """Return the steps that were done, with the digests of their inputs."""
    notes = _notes(folder)
    done: dict[str, str] = json.loads(notes.read_text("utf-8")) if notes.exists() else {}
    return done


def _install_dependencies(inside: Path, folder: Path, _requirements: str) -> None:
    _say(f"{folder.name}: installing the dependencies")
    _pip(inside, "--requirement", str(ROOT / "requirements" / "run.txt"))


def _install_tools(inside: Path, folder: Path, requirements: str) -> None:
    _say(f"{folder.name}: installing requirements/{requirements}.txt (a minute or so the first time)")
    _pip(inside, "--requirement", str(ROOT / "requirements" / f"{requirements}.txt"))


def _install_package(inside: Path, folder: Path, _requirements: str) -> None:
    _say(f"{folder.name}: installing bandstand")
    # The next step builds the extensions in place and incrementally.
    _pip(inside, "--no-deps", "--no-build-isolation", "--editable", str(ROOT), BANDSTAND_BUILD="skip")


def _build_extensions(inside: Path, folder: Path, _requirements: str) -> None:
    _say(f"{folder.name}: compiling (two or three minutes the first time)")
    _run([str(inside), "setup.py", "--quiet", "build_ext", "--inplace"], BANDSTAND_BUILD="need")


def _tools_digest(requirements: str) -> str:
    texts: list[str] = []
    pending = [f"{requirements}.txt"]
    for name in pending:
        text = (ROOT / "requirements" / name).read_text("utf-8")
        texts.append(text)
        pending += [line.split()[1] for line in text.splitlines() if line.startswith("-r ")]
    return _digest(*texts)


def _package_digest() -> str:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    return _digest(json.dumps([config["build-system"], config["project"], config["tool"]["setuptools"]]))


def _declarations() -> list[Path]:
    """Return the `.pxd` files: a module is compiled if it has one."""
    return sorted(PACKAGE.rglob("*.pxd"))


def _extensions_digest() -> str:
    sources = [path.with_suffix(".py") for path in _declarations()]
    build = [ROOT / "setup.py", PACKAGE / "_build_mode.py"]
    return _digest(
        *(
            # With its folder: a file that moves to another package is a change.
            f"{path.relative_to(ROOT)}\n{path.read_text('utf-8')}"
            for path in [*_declarations(), *sources, *build]
        )
    )


def _extensions(inside: Path) -> dict[Path, bool]:
    """Return the extensions of all compiled modules for this interpreter, and whether they exist."""
    ask = [str(inside), "-c", "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))"]
    suffix = subprocess.run(ask, capture_output=True, text=True, check=True).stdout.strip()
    paths = [path.with_suffix(suffix) for path in _declarations()]
    return {path: path.exists() for path in paths}


def _digest(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _pip(inside: Path, *arguments: str, **environment: str) -> None:
    # -qq: errors only. Notices about mirrors and new versions of pip do not help here.
    pip = [str(inside), "-m", "pip", "install", "-qq", "--disable-pip-version-check", *arguments]
    _run(pip, **environment)


def _run(command: list[str], **environment: str) -> None:
    # Standard output has only what the caller asked for.
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **environment}, stdout=sys.stderr, check=False
    )
    if done.returncode:
        raise SystemExit(f"This step failed (exit code {done.returncode}): {' '.join(command)}")


def _say(text: str) -> None:
    print(f"-- {text}", file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Create the virtual environment .venv, or bring it up to date."
    )
    parser.add_argument("--find", action="store_true", help="print the usable interpreters and exit")
    parser.add_argument(
        "--run", action="store_true", help="install only the dependencies, and compile in the background"
    )
    parser.add_argument(
        "--compile", action="store_true", help="with --run: compile here, and yield to other processes"
    )
    parser.add_argument("--peers", action="store_true", help="create .venvs/bench instead, for the benchmark")
    parser.add_argument("--peers-full", action="store_true", help="the same with Ray, for the full benchmark")
    options = parser.parse_args()
    if options.peers_full:
        prepare_peers(sys.executable, "peers-full")
        return
    if options.peers:
        prepare_peers(sys.executable)
        return
    if options.find:
        found = find_interpreters()
        for version in VERSIONS:
            known = found.get(version)
            print(f"{version}  {known.release}  {known.path}" if known else f"{version}  not found")
        return
    if options.compile:
        os.nice(10)
    if options.run and not options.compile:
        is_compiled = prepare_to_run(sys.executable, ROOT / ".venv")
        print(0 if is_compiled and os.environ.get("BANDSTAND_PURE", "0") != "1" else 1)
        return
    prepare(sys.executable, ROOT / ".venv", "run" if options.run else "dev")


if __name__ == "__main__":
    main()
