"""Types are tests: right uses are clean and infer what they say, each wrong use is an error in mypy and in pyright."""

from __future__ import annotations

import pytest

from tests.types.checkers import CHECKERS, HERE, mypy

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.timeout(300)]

RIGHT = ("right_uses.py", "right_services.py", "right_bus.py", "right_channels.py", "right_shutdown.py")
WRONG = "wrong_uses.py"


@pytest.mark.parametrize("name", RIGHT)
@pytest.mark.parametrize("checker", CHECKERS)
def test_right_uses_are_clean(checker: str, name: str) -> None:
    assert CHECKERS[checker]()[HERE / name] == {}


@pytest.mark.parametrize("checker", CHECKERS)
def test_each_wrong_use_is_an_error_and_nothing_else_is(checker: str) -> None:
    path = HERE / WRONG
    lines = path.read_text("utf-8").splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# E:")}
    found = CHECKERS[checker]()[path]
    accepted = {number: lines[number - 1].strip() for number in sorted(marked - set(found))}
    unmarked = {
        number: f"{lines[number - 1].strip()}: {found[number]}" for number in sorted(set(found) - marked)
    }
    assert not accepted, "\n".join(
        ["wrong, and accepted:", *(f"{at}: {line}" for at, line in accepted.items())]
    )
    assert not unmarked, "\n".join(["unexpected:", *(f"{at}: {line}" for at, line in unmarked.items())])


def test_mypy_says_which_argument_of_a_constructor_is_wrong() -> None:
    path = HERE / WRONG
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
    """A gate that cannot fail is none."""
    path = HERE / WRONG
    assert len(CHECKERS[checker]()[path]) > 330
