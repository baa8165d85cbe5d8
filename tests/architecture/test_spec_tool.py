"""The ledger's tool: what it reads, and what it refuses."""

import pytest

from tests.architecture import package_layout
from tools import spec

LEDGER = "# Title\n\n- **J1** · done — One thing. More of it.\n- **J2** · planned — Another.\n"


def test_it_reads_ids_status_and_text() -> None:
    requirements, problems = spec.read_ledger(LEDGER)
    assert problems == []
    assert requirements == [
        spec.Requirement("J1", "done", "One thing. More of it."),
        spec.Requirement("J2", "planned", "Another."),
    ]


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("- **J1** done: text\n- **J2** · done — text", "is not of the form"),
        ("- **J1** · ready — text", "has the status 'ready'"),
        ("- **J1** · done — text\n- **J1** · done — text", "twice"),
        ("nothing", "no requirement at all"),
    ],
)
def test_it_refuses_a_line_it_cannot_trust(line: str, complaint: str) -> None:
    _, problems = spec.read_ledger(line)
    assert len(problems) == 1
    assert complaint in problems[0]


def test_done_needs_a_test_and_a_test_needs_a_line() -> None:
    requirements, _ = spec.read_ledger(LEDGER)
    assert spec.disagreements(requirements, {"J1": {"tests/a.py::test_a"}}) == []
    assert spec.disagreements(requirements, {"J1": set(), "Z9": {"tests/a.py::test_a"}}) == [
        "J1 is listed as done, and no test proves it",
        "Z9 is no requirement, but tests/a.py::test_a names it",
    ]


def test_it_shows_each_line_with_its_tests() -> None:
    requirements, _ = spec.read_ledger(LEDGER)
    shown = spec.render(requirements, {"J1": {"tests/a.py::test_a"}})
    assert shown.splitlines() == [
        "J1   done     One thing",
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


def test_a_promise_needs_a_test_and_a_test_a_promise() -> None:
    text = "**G1 — Kept.** So it is.\n\n**G2 — Broken.** Alas.\n\n**G3 — Twice.** Once.\n\n**G3 — Twice.** Twice.\n"
    assert spec.broken_promises(text, {"G1": {"test_a"}, "G3": {"test_b"}, "G9": {"test_c"}}) == [
        "G3 is promised twice",
        "G2 is promised, and no test holds it",
        "G9 is no promise of docs/semantics.md, but test_c names it",
    ]


def test_the_ledger_holds_every_line() -> None:
    text = (package_layout.ROOT / "docs" / "requirements.md").read_text("utf-8")
    requirements, problems = spec.read_ledger(text)
    expected = {"J": 25, "C": 30, "K": 7, "S": 19}
    assert problems == []
    assert [one.id for one in requirements] == [
        f"{k}{n}" for k, last in expected.items() for n in range(1, last + 1)
    ]
