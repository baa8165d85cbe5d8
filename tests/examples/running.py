"""Runs examples as programs of their own; warnings are errors."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def command(name: str, *options: object) -> list[str]:
    """Return the command of an example: the name of a file, or of a package that runs as a module."""
    program = [f"examples/{name}"] if name.endswith(".py") else ["-m", f"examples.{name}"]
    return [sys.executable, "-W", "error", *program, *map(str, options)]


def run(name: str, *options: object, timeout: float = 50) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(name, *options), cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False
    )


def output_of(name: str, *options: object) -> str:
    """Run an example that must end well and write nothing to stderr."""
    done = run(name, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout
