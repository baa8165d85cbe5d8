"""`import bandstand` is cheap: it loads no heavy modules."""

import subprocess
import sys

import pytest

HEAVY = (
    "importlib.metadata",
    "argparse",
    "hypothesis",
    "uvloop",
    "json",
    "hashlib",
    "bandstand.testing",
    "bandstand.app",
    "bandstand.doctor",
)


@pytest.mark.slow
@pytest.mark.parametrize("module", ["bandstand", "bandstand.core"])
def test_import_loads_nothing_heavy(module: str) -> None:
    script = f"import sys, {module}; print(*sorted(sys.modules), sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=50
    )
    assert sorted(set(HEAVY) & set(done.stdout.splitlines())) == []
