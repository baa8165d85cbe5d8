"""Where it was measured: the machine, the Python, and the versions that matter."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sysconfig
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import bandstand
from bandstand import _build_mode
from bench import otp
from bench.threads import PYTHON

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements"
ASK = """
import json, sys
from importlib.metadata import PackageNotFoundError, version

found = {}
for name in sys.argv[1:]:
    try:
        found[name] = version(name)
    except PackageNotFoundError:
        pass
print(json.dumps(found))
"""
"""What the peers' Python is given to run: the versions of what is installed there."""

DRAWING = {"matplotlib"}
"""Installed beside the peers, to draw the charts: no figure depends on it."""


def describe() -> dict[str, str]:
    """Say what the figures depend on, name by name."""
    uvloop = _version("uvloop")
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {platform.system()} {platform.machine()}",
        "load": _load(),
        "python": f"{platform.python_implementation()} {platform.python_version()}{_build()}",
        "bandstand": bandstand.__version__,
        "cython": _build_mode.cython_version() or "not compiled",
        "uvloop": uvloop or "not installed",
        "host": f"uvloop {uvloop}" if uvloop else "asyncio",
    }


def versions() -> dict[str, str]:
    """The versions of the peers, each asked of the environment that it runs in; what is missing is left out."""
    listed = {name for path in REQUIREMENTS.glob("peers*.txt") for name in _pinned(path)}
    names = sorted(listed - DRAWING, key=str.lower)
    found: dict[str, str] = {}
    if PYTHON.exists():
        asked = subprocess.run(
            [str(PYTHON), "-c", ASK, *names], capture_output=True, text=True, timeout=60, check=False
        )
        found = dict(json.loads(asked.stdout)) if asked.returncode == 0 else {}
    # Beside the peers' there are those of our own environment: the loop, and what channels and the bus are compared with.
    ours = {name: known for name in ("anyio", "msgspec", "uvloop") if (known := _version(name))}
    erlang = _otp()
    return {**found, **ours, **({"Erlang/OTP": erlang} if erlang else {})}


def _otp() -> str | None:
    """Which release of Erlang/OTP it is, and of its runtime; None where there is none."""
    if otp.refusal() is not None:
        return None
    tell = (
        'io:format("~s (ERTS ~s)", [erlang:system_info(otp_release), erlang:system_info(version)]), halt(0).'
    )
    command = ["erl", "-noshell", "-eval", tell]
    asked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return asked.stdout.strip() or None


def _pinned(path: Path) -> list[str]:
    """The names of a file of requirements."""
    lines = (line.partition("#")[0].strip() for line in path.read_text("utf-8").splitlines())
    return [line.partition("==")[0].strip() for line in lines if "==" in line]


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or "unknown processor"


def _build() -> str:
    """Say what is known of how Python was optimised: without a profile all that is interpreted is slower, and `limit` is nothing else.

    Nothing in a Python tells it for sure. Who configured it with --enable-optimizations has it. Debian's package has it too and does
    not say so: it runs the profile itself and keeps the flags to itself; what gives it away is its own scheme of
    folders. Of all others it is only known that nobody asked for it.
    """
    if "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or ""):
        return " (profile-guided)"
    if "deb_system" in sysconfig.get_scheme_names():
        return " (the package of Debian or a child of it, which is profile-guided)"
    return " (configured without --enable-optimizations: what is interpreted is slower than it need be)"


def _load() -> str:
    """How busy the machine was before we began: figures of a busy one are noisy."""
    return f"{os.getloadavg()[0]:.1f}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
