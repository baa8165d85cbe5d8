"""Right uses are clean, and each line that is marked as wrong is an error, in mypy and in pyright."""

from __future__ import annotations

import pytest

from tests.types.checkers import CHECKERS, HERE, mypy

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(300)]

FINDING = pytest.mark.guarantee("G202", "G206", "G207")
POOLS = pytest.mark.guarantee("G220", "G234")
PODS = pytest.mark.spec("S13")
STEPS = pytest.mark.guarantee("G538", "G542")
PERSISTENCE = pytest.mark.guarantee("G480", "G485", "G495")
RIGHT = ["uses", "services", "bus", "channels", "shutdown"]
SPECIAL = [
    pytest.param("finding", marks=FINDING),
    pytest.param("pools", marks=POOLS),
    pytest.param("pods", marks=PODS),
    pytest.param("persistence", marks=PERSISTENCE),
    pytest.param("steps", marks=STEPS),
]


@pytest.mark.parametrize("name", [*RIGHT, *SPECIAL])
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_clean(checker: str, name: str) -> None:
    assert CHECKERS[checker]()[HERE / f"right_{name}.py"] == {}


@pytest.mark.parametrize("name", ["uses", *SPECIAL])
@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_use_is_an_error_and_nothing_else_is(checker: str, name: str) -> None:
    path = HERE / f"wrong_{name}.py"
    lines = path.read_text("utf-8").splitlines()
    marked = {number: line.strip() for number, line in enumerate(lines, 1) if line.endswith("# E:")}
    assert len(marked) > 15
    found = CHECKERS[checker]()[path]
    assert {at: line for at, line in marked.items() if at not in found} == {}, "wrong, and accepted"
    assert {at: error for at, error in found.items() if at not in marked} == {}, "unexpected"


def test_mypy_says_which_argument_of_a_constructor_is_wrong() -> None:
    path = HERE / "wrong_uses.py"
    lines = path.read_text("utf-8").splitlines()
    found = mypy()[path]

    def error_at(code: str) -> str:
        (number,) = [at for at, line in enumerate(lines, 1) if line.strip() == f"{code}  # E:"]
        return found[number]

    expected = {
        'loop.spawn(Tally, "x")': 'Argument 2 to "spawn" of "ActorSystem" has incompatible type "str"; expected "int"',
        "loop.spawn(Tally, begin=1)": 'Unexpected keyword argument "begin" for "spawn" of "ActorSystem"',
        'loop.options(name="x").spawn(Tally, "x")': 'Argument 2 to "spawn" of "Spawner" has incompatible type "str"; expected "int"',
        'self.spawn(Tally, "x")': 'Argument 2 to "spawn" of "BaseActor" has incompatible type "str"; expected "int"',
        "loop.spawn(Implementation)": 'Missing positional argument "start" in call to "spawn" of "ActorSystem"',
    }
    for code, text in expected.items():
        assert text in error_at(code)


@pytest.mark.parametrize("checker", CHECKERS)
def test_the_checkers_really_check(checker: str) -> None:
    path = HERE / "wrong_uses.py"
    assert len(CHECKERS[checker]()[path]) > 250
