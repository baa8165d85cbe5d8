"""Where it was measured: the machine, the Python, and the versions that matter."""

from __future__ import annotations

import json
import os
import platform
import sysconfig
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bandstand
from bandstand import mode
from bandstand.core import hot


def describe() -> dict[str, str]:
    """Say what the figures depend on, name by name."""
    uvloop = _version("uvloop")
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load": _load(),
        "python": f"{platform.python_implementation()} {platform.python_version()}{_build()}",
        "bandstand": bandstand.__version__,
        "cython": _compiled_by() or "not compiled",
        "uvloop": uvloop or "not installed",
        "host": f"uvloop {uvloop}" if uvloop else "asyncio",
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _build() -> str:
    """Warn of a Python without profile-guided optimisation: it slows what is interpreted, and `limit` is nothing else."""
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "" if "--enable-optimizations" in arguments else " (configured without --enable-optimizations)"


def _load() -> str:
    """How busy the machine was before we began: figures of a busy one are noisy."""
    return f"{os.getloadavg()[0]:.1f}"


def _compiled_by() -> str | None:
    """Return the version of Cython that compiled the hot modules here, as the build's stamp has it."""
    try:
        stamp = json.loads(Path(hot.__path__[0], mode.STAMP).read_text("utf-8"))
        return str(stamp[EXTENSION_SUFFIXES[0]]["cython"])
    except (OSError, ValueError, KeyError):
        return None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
