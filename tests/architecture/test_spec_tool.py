"""tools/spec.py: how it reads the requirements and guarantees, and which errors it reports."""

import pytest

from tests.architecture import package_layout
from tools import spec

PAGE = "# Title\n\n- **J1** · done — One thing. More of it.\n- **J2** · planned — Another.\n"


def test_it_reads_id_status_and_text() -> None:
    requirements, problems = spec.read_requirements(PAGE)
    assert problems == []
    assert requirements == [
        spec.Requirement("J1", "done", "One thing. More of it."),
        spec.Requirement("J2", "planned", "Another."),
    ]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("- **J1** done: text\n- **J2** · done — text", "is not of the form"),
        ("- **J1** · ready — text", "has the status 'ready'"),
        ("- **J1** · done — text\n- **J1** · done — text", "twice"),
        ("nothing", "no requirements"),
    ],
)
def test_it_reports_a_malformed_line(line: str, problem: str) -> None:
    _, problems = spec.read_requirements(line)
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_done_requirement_needs_a_test_and_a_test_needs_a_requirement() -> None:
    requirements, _ = spec.read_requirements(PAGE)
    assert spec.disagreements(requirements, {"J1": {"tests/a.py::test_a"}}) == []
    assert spec.disagreements(requirements, {"J1": set(), "Z9": {"tests/a.py::test_a"}}) == [
        "J1 is done, but no test proves it",
        "Z9 is not a requirement, but tests/a.py::test_a names it",
    ]


def test_it_prints_each_requirement_with_its_tests() -> None:
    requirements, _ = spec.read_requirements(PAGE)
    shown = spec.render(requirements, {"J1": {"tests/a.py::test_a"}}, {"J1": ["G1", "G2"]})
    assert shown.splitlines() == [
        "J1   done     One thing (G1, G2)",
        "     - tests/a.py::test_a",
        "J2   planned  Another",
    ]


@pytest.mark.slow
def test_collection_sees_what_pytest_would_run(pytester: pytest.Pytester) -> None:
    pytester.makeini(
        "[pytest]\nasyncio_default_fixture_loop_scope = function\nmarkers =\n    spec(*ids): x\n    guarantee(*ids): x\n"
    )
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.spec("J1", "J2")
        @pytest.mark.parametrize("x", [1, pytest.param(2, marks=pytest.mark.spec("J3"))])
        def test_many(x): ...

        @pytest.mark.spec("J4")
        @pytest.mark.guarantee("G1")
        class TestClass:
            def test_inside(self): ...

        @pytest.mark.spec("J5")
        @pytest.mark.skip(reason="not run")
        def test_skipped(): ...
        """
    )
    name = "test_collection_sees_what_pytest_would_run.py"
    specs, guarantees = spec.collect(pytester.path)
    assert guarantees == {"G1": {f"{name}::TestClass::test_inside"}}
    assert specs == {
        "J1": {f"{name}::test_many"},
        "J2": {f"{name}::test_many"},
        "J3": {f"{name}::test_many"},
        "J4": {f"{name}::TestClass::test_inside"},
        "J5": set(),
    }


def test_a_guarantee_needs_a_test_and_a_test_needs_a_guarantee() -> None:
    text = "**G1 — Kept.** It is.\n\n**G2 — Broken.** It is not.\n\n**G3 — Twice.** Once.\n\n**G3 — Twice.** Twice.\n"
    assert spec.guarantee_problems(text, {"G1": {"test_a"}, "G3": {"test_b"}, "G9": {"test_c"}}) == [
        "G3 is listed twice",
        "G2 has no test",
        "G9 is not a guarantee of docs/guarantees.md, but test_c names it",
    ]


def test_requirements_stand_beside_guarantees() -> None:
    text = "**G1 — Kept.** (J1, J2) It is.\n\n**G2 — Broken.** It (J9) is not.\n\n**G3 — Here** (J1).\n"
    fulfilled = spec.read_fulfilled(text)
    assert fulfilled == {"J1": ["G1", "G3"], "J2": ["G1"]}
    requirements, _ = spec.read_requirements(PAGE)
    assert spec.unknown_requirements(requirements, fulfilled) == []
    assert spec.unknown_requirements(requirements, {"J7": ["G1", "G2"]}) == [
        "J7 is not a requirement, but stands beside G1, G2"
    ]


def test_the_page_has_every_requirement() -> None:
    text = (package_layout.ROOT / "docs" / "guarantees.md").read_text("utf-8")
    requirements, problems = spec.read_requirements(text)
    expected = {"J": 25, "C": 30, "K": 7, "S": 19}
    assert problems == []
    assert [one.id for one in requirements] == [
        f"{k}{n}" for k, last in expected.items() for n in range(1, last + 1)
    ]
