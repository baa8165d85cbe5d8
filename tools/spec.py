"""Print every requirement and every promise with its tests, and fail where the pages and the tests disagree.

    python tools/spec.py            the ledger, as `make spec` prints it
    python tools/spec.py --brief    only the sums and what is wrong

The ids come from docs/requirements.md, the tests from pytest's own collection: what is marked to be skipped, or to
fail, proves nothing. (What is skipped on a condition does: where socat is missing, say, the same is proved elsewhere.) It is an error if a line is listed as done and has no test, or if a test names an unknown id.

The promises are those of docs/semantics.md (`**G7 — …**`), the tests those marked `guarantee("G7")`. A promise that no
test holds is an error, and so is a test of a promise that nobody made.
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
_PROMISE = re.compile(r"^\*\*(G\d+) — (.+?)\*\*", re.MULTILINE)
_LOOKS_LIKE_ONE = re.compile(r"^- \*\*[A-Z]\d+")


@dataclass(frozen=True)
class Requirement:
    """One line of the ledger."""

    id: str
    status: str
    text: str


class Collector:
    """A pytest plugin that notes which test carries which ids in a marker of a given name."""

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


def read_ledger(text: str) -> tuple[list[Requirement], list[str]]:
    """Return the requirements of the ledger and what is wrong with its lines."""
    requirements: list[Requirement] = []
    problems: list[str] = []
    seen: set[str] = set()
    for number, line in enumerate(text.splitlines(), 1):
        match = _LINE.match(line)
        if match is None:
            if _LOOKS_LIKE_ONE.match(line):
                problems.append(
                    f"line {number} of the ledger is not of the form `- **J1** · planned — text`: {line}"
                )
            continue
        requirement = Requirement(*match.groups())
        if requirement.status not in STATUSES:
            problems.append(
                f"{requirement.id} has the status {requirement.status!r}; it must be one of {STATUSES}"
            )
        if requirement.id in seen:
            problems.append(f"{requirement.id} stands in the ledger twice")
        seen.add(requirement.id)
        requirements.append(requirement)
    if not requirements:
        problems.append("the ledger holds no requirement at all")
    return requirements, problems


def disagreements(requirements: list[Requirement], tests: dict[str, set[str]]) -> list[str]:
    """Return where ledger and tests disagree."""
    known = {requirement.id for requirement in requirements}
    problems = [
        f"{requirement.id} is listed as done, and no test proves it"
        for requirement in requirements
        if requirement.status == "done" and not tests.get(requirement.id)
    ]
    problems += [
        f"{unknown} is no requirement, but {', '.join(sorted(names)) or 'a skipped test'} names it"
        for unknown, names in sorted(tests.items())
        if unknown not in known
    ]
    return problems


def broken_promises(text: str, tests: dict[str, set[str]]) -> list[str]:
    """Return the promises that no test holds, and the tests of promises that were never made."""
    made = [number for number, _ in _PROMISE.findall(text)]
    problems = [f"{number} is promised twice" for number, times in Counter(made).items() if times > 1]
    problems += [f"{number} is promised, and no test holds it" for number in made if not tests.get(number)]
    problems += [
        f"{number} is no promise of docs/semantics.md, but {', '.join(sorted(tests[number])) or 'a skipped test'} names it"
        for number in sorted(tests)
        if number not in made
    ]
    return problems


def collect(folder: Path) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Let pytest collect the suite; the tests of each requirement, and of each promise."""
    specs, guarantees = Collector("spec"), Collector("guarantee")
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = pytest.main(
            ["--collect-only", "-q", "-p", "no:randomly", str(folder)], plugins=[specs, guarantees]
        )
    if code not in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}:
        raise SystemExit(f"{output.getvalue()}\nspec: pytest could not collect the tests")
    return specs.tests, guarantees.tests


def render(requirements: list[Requirement], tests: dict[str, set[str]]) -> str:
    """Write the ledger with its tests."""
    lines: list[str] = []
    for requirement in requirements:
        names = sorted(tests.get(requirement.id, ()))
        lines.append(
            f"{requirement.id:<4} {requirement.status:<8} {requirement.text.partition('. ')[0].rstrip('.')}"
        )
        lines += [f"     - {name}" for name in names]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="Print every requirement with the tests that prove it.")
    parser.add_argument("--brief", action="store_true", help="only the sums and what is wrong")
    options = parser.parse_args()
    requirements, problems = read_ledger((ROOT / "docs" / "requirements.md").read_text("utf-8"))
    tests, held = collect(ROOT / "tests")
    semantics = (ROOT / "docs" / "semantics.md").read_text("utf-8")
    promises = _PROMISE.findall(semantics)
    problems += disagreements(requirements, tests)
    problems += broken_promises(semantics, held)
    if not options.brief:
        print(render(requirements, tests))
        print()
        for number, title in promises:
            print(f"{number:<4} {title.rstrip('.')}: {len(held.get(number, ()))} tests")
    count = Counter(requirement.status for requirement in requirements)
    sums = ", ".join(f"{count[status]} {status}" for status in STATUSES)
    print(
        f"\nspec: {len(requirements)} requirements: {sums}; {len(promises)} promises; {len(problems)} problems"
    )
    for problem in problems:
        print(f"spec: {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
