"""The Python code on every page runs: all blocks of a page, in order, as one program."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

# Its blocks are test files, which tests/testing runs with pytest.
TESTED_ELSEWHERE = {"docs/guides/testing.md"}

# They show commands and cells; tests/examples, tests/cli and tests/notebook run those.
COMMANDS_ONLY = {
    "docs/bus/command-line.md",
    "docs/recipes/notebooks.md",
}

OUTSIDE = [
    *("README.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    *(page.relative_to(ROOT).as_posix() for page in sorted(ROOT.glob("examples/*/README.md"))),
]


def pages() -> list[str]:
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    names = [page.relative_to(ROOT).as_posix() for page in found if BLOCK.search(page.read_text("utf-8"))]
    return [name for name in names if name not in TESTED_ELSEWHERE]


@pytest.mark.slow
@pytest.mark.parametrize("page", pages())
def test_page(page: str, tmp_path: Path) -> None:
    program = tmp_path / "page.py"
    program.write_text("\n".join(BLOCK.findall((ROOT / page).read_text("utf-8"))), "utf-8")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(program)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{page} does not run:\n{done.stderr}"


@pytest.mark.once
@pytest.mark.slow
def test_pages_type_check(tmp_path: Path) -> None:
    """Code that readers copy passes mypy in strict mode."""
    for page in pages():
        name = re.sub(r"\W", "_", page)
        (tmp_path / f"{name}.py").write_text(
            "\n".join(BLOCK.findall((ROOT / page).read_text("utf-8"))), "utf-8"
        )
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        str(tmp_path),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.once
@pytest.mark.parametrize("page", OUTSIDE)
def test_pages_outside_the_site_have_no_broken_links(page: str) -> None:
    """MkDocs checks the others."""
    prose = re.sub(
        r"^```.*?^```$|`[^`\n]*`", "", (ROOT / page).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    links = [link for link in re.findall(r"\]\(([^)#\s]+)", prose) if "://" not in link]
    assert [link for link in links if not (ROOT / page).parent.joinpath(link).exists()] == []


def test_there_are_pages_to_run() -> None:
    """Every guide, recipe and page about the bus has code, except those that are about commands."""
    found = set(pages()) | TESTED_ELSEWHERE
    expected = {"README.md", "docs/concepts.md", "docs/index.md", "docs/migrating.md", "docs/tutorial.md"}
    for folder in ("guides", "recipes", "bus"):
        expected |= {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs" / folder).glob("*.md")}
    assert expected - found == COMMANDS_ONLY
