"""What a count depends on besides bandstand: the Python and how it was built, the compilers, the machine's kind."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
import subprocess
import sysconfig
from collections.abc import Mapping
from typing import TypeAlias

from bench import machine

Site: TypeAlias = Mapping[str, str]
"""What a figure is kept by, name by name; the first names matter most."""

FLAGS = ("CONFIG_ARGS", "PY_CFLAGS", "PY_CORE_CFLAGS", "PY_LDFLAGS", "LDLIBRARY")


def here() -> Site:
    """Say where we are."""
    described = machine.describe()
    return {
        "architecture": platform.machine(),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "build": build(),
        "cython": described["cython"],
        "compiler": compiler(),
        "uvloop": described["uvloop"],
    }


def build() -> str:
    """A digest of the flags that this Python was built with, and of its compiler."""
    flags = [str(sysconfig.get_config_var(name)) for name in FLAGS]
    # Where it lies makes no difference to what it does.
    text = "\n".join([*flags, platform.python_compiler()]).replace(sysconfig.get_config_var("prefix"), "")
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def compiler() -> str:
    """The C compiler, by its first line."""
    path = shutil.which(os.environ.get("CC", "cc"))
    if path is None:
        return "none"
    done = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return next(iter(done.stdout.splitlines()), "unknown")
