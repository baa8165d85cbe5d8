"""Print every requirement and every guarantee with its tests, and fail if the page and the tests disagree.

    python tools/spec.py            all of them, as `make spec` prints it
    python tools/spec.py --brief    only the totals and the problems

The requirements come from docs/guarantees.md, the tests from pytest's collection. A test that is marked `skip` or `xfail` proves
nothing. (A test that is skipped on a condition, such as a missing socat, does count.) It is an error if a requirement is done and
has no test, or if a test names an unknown id.

The guarantees are on the same page (`**G7 — …** (J5)`, with the requirements that they fulfil), their tests those marked
`guarantee("G7")`. A guarantee without a test is an error, and so are a test of an unknown guarantee and an unknown requirement beside one.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
STATUSES = ("done", "partly", "planned")

_LINE = re.compile(r"^- \*\*([A-Z]\d+)\*\* · (\w+) — (.+)$")
_GUARANTEE = re.compile(r"^\*\*(G\d+) — (.+?)\*\*", re.MULTILINE)
_FULFILS = re.compile(r"^\*\*(G\d+) — .+?\*\* \(([A-Z]\d+(?:, [A-Z]\d+)*)\)", re.MULTILINE)
_CANDIDATE = re.compile(r"^- \*\*[A-Z]\d+")


@dataclass(frozen=True)
class Requirement:
    """One requirement of docs/guarantees.md."""

    id: str
    status: str
    text: str


class Collector:
    """A pytest plugin that collects the tests that have a given marker, by the ids in it."""

    def __init__(self, marker: str) -> None:
        self.marker = marker
        self.tests: dict[str, set[str]] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            proves_nothing = any(True for name in ("skip", "xfail") for _ in item.iter_markers(name))
            name = item.nodeid.partition("[")[0]
            for marker in item.iter_markers(self.marker):
                for spec_id in marker.args:
                    proofs = self.tests.setdefault(str(spec_id), set())
                    if not proves_nothing:
                        proofs.add(name)


def read_requirements(text: str) -> tuple[list[Requirement], list[str]]:
    """Return the requirements of the page, and the problems with its lines."""
    requirements: list[Requirement] = []
    problems: list[str] = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None:
            if _CANDIDATE.match(line):
                problems.append(f"line {number} is not of the form `- **J1** · planned — text`: {line}")
            continue
        requirement = Requirement(*match.groups())
        if requirement.status not in STATUSES:
            problems.append(
                f"{requirement.id} has the status {requirement.status!r}; it must be one of {STATUSES}"
            )
        if requirement.id in seen:
            problems.append(f"{requirement.id} is listed twice")
        seen.add(requirement.id)
        requirements.append(requirement)
    if not requirements:
        problems.append("there are no requirements")
    return requirements, problems


def disagreements(requirements: list[Requirement], tests: dict[str, set[str]]) -> list[str]:
    """Return where requirements and tests disagree."""
    known = {requirement.id for requirement in requirements}
    problems = [
        f"{requirement.id} is done, but no test proves it"
        for requirement in requirements
        if requirement.status == "done" and not tests.get(requirement.id)
    ]
    problems += [
        f"{unknown} is not a requirement, but {', '.join(sorted(names)) or 'a skipped test'} names it"
        for unknown, names in sorted(tests.items())
        if unknown not in known
    ]
    return problems


def guarantee_problems(text: str, tests: dict[str, set[str]]) -> list[str]:
    """Return the guarantees without a test, and the tests of unknown guarantees."""
    listed = [number for number, _ in _GUARANTEE.findall(text)]
    problems = [f"{number} is listed twice" for number, times in Counter(listed).items() if times > 1]
    problems += [f"{number} has no test" for number in listed if not tests.get(number)]
    problems += [
        f"{number} is not a guarantee of docs/guarantees.md, but {', '.join(sorted(tests[number])) or 'a skipped test'} names it"
        for number in sorted(tests)
        if number not in listed
    ]
    return problems


def read_fulfilled(text: str) -> dict[str, list[str]]:
    """Return the guarantees that each requirement stands beside."""
    fulfilled: dict[str, list[str]] = {}
    for guarantee, requirements in _FULFILS.findall(text):
        for requirement in requirements.split(", "):
            fulfilled.setdefault(requirement, []).append(guarantee)
    return fulfilled


def unknown_requirements(requirements: list[Requirement], fulfilled: dict[str, list[str]]) -> list[str]:
    """Return the problems with ids of requirements beside guarantees."""
    known = {requirement.id for requirement in requirements}
    return [
        f"{unknown} is not a requirement, but stands beside {', '.join(guarantees)}"
        for unknown, guarantees in sorted(fulfilled.items())
        if unknown not in known
    ]


def collect(folder: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Collect the suite with pytest; return the tests of each requirement, and of each guarantee."""
    specs, guarantees = Collector("spec"), Collector("guarantee")
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:randomly", str(folder)], plugins=[specs, guarantees]
        )
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(f"{output.getvalue()}\nspec: pytest could not collect the tests")
    return specs.tests, guarantees.tests


def render(
    requirements: list[Requirement], tests: dict[str, set[str]], fulfilled: dict[str, list[str]]
) -> str:
    """Return the requirements with their guarantees and tests as text."""
    lines: list[str] = []
    for requirement in requirements:
        names = sorted(tests.get(requirement.id, ()))
        text = requirement.text.partition(". ")[0].rstrip(".")
        guarantees = fulfilled.get(requirement.id)
        beside = f" ({', '.join(guarantees)})" if guarantees else ""
        lines.append(f"{requirement.id:<4} {requirement.status:<8} {text}{beside}")
        lines += [f"     - {name}" for name in names]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print every requirement and guarantee with its tests.")
    parser.add_argument("--brief", action="store_true", help="print only the totals and the problems")
    options = parser.parse_args()
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    requirements, problems = read_requirements(page)
    tests, guaranteed = collect(ROOT / "tests")
    guarantees = _GUARANTEE.findall(page)
    problems += disagreements(requirements, tests)
    problems += guarantee_problems(page, guaranteed)
    fulfilled = read_fulfilled(page)
    problems += unknown_requirements(requirements, fulfilled)
    if not options.brief:
        print(render(requirements, tests, fulfilled))
        print()
        for number, title in guarantees:
            print(f"{number:<4} {title.rstrip('.')}: {len(guaranteed.get(number, ()))} tests")
    count = Counter(requirement.status for requirement in requirements)
    totals = ", ".join(f"{count[status]} {status}" for status in STATUSES)
    print(
        f"\nspec: {len(requirements)} requirements: {totals}; {len(guarantees)} guarantees; {len(problems)} problems"
    )
    for problem in problems:
        print(f"spec: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
