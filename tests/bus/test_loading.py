"""Finding capabilities by name: in modules and in files, and what is said when there are none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from bandstand.bus.contracts.capability import Capability, Contract, Provision
from bandstand.bus.loading import Loadable, load_capabilities
from bandstand.errors import ContractError

pytestmark = [pytest.mark.spec("C18")]

Write = Callable[[str, str], Path]

SHOP = """
    from bandstand.bus.contracts.capability import Capability, provide
    from bandstand.bus.contracts.capability import Contract

    class Stock(Capability):
        '''What there is.'''

    class Till(Capability):
        '''What was paid.'''

    audit = Contract(id="Audit", description="Writes down.", inbound=None, spawn=object)
    both = [Till, audit]
    late = (Stock,)
    given = provide(Stock)
    def make(): return [Stock, audit]
    def make_one(): return Till
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write modules into a directory that is the current one, and forget them again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    known = set(sys.modules)

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), "utf-8")
        return path

    yield write
    for name in set(sys.modules) - known:
        del sys.modules[name]


def names(target: str) -> list[str]:
    return [name_of(entry) for entry in load_capabilities(target)]


def name_of(entry: Loadable) -> str:
    if isinstance(entry, Contract):
        return entry.id
    return entry.kind.__name__ if isinstance(entry, Provision) else entry.__name__


def problem_of(target: str) -> ContractError:
    with pytest.raises(ContractError) as caught:
        load_capabilities(target)
    return caught.value


class TestWhatIsFound:
    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("", ["Stock", "Till"]),
            (":Stock", ["Stock"]),
            (":audit", ["Audit"]),
            (":both", ["Till", "Audit"]),
            (":late", ["Stock"]),
            (":given", ["Stock"]),
            (":make", ["Stock", "Audit"]),
            (":make_one", ["Till"]),
        ],
    )
    @pytest.mark.parametrize("place", ["shop", "shop.py", "./shop.py"])
    def test_under_a_name_or_without_one(
        self, write: Write, place: str, name: str, expected: list[str]
    ) -> None:
        write("shop.py", SHOP)
        assert names(place + name) == expected

    def test_or_how_to_make_it(self, write: Write) -> None:
        write("shop.py", SHOP + "\n    def capabilities(): return both\n")
        assert names("shop") == ["Till", "Audit"]

    def test_without_a_name_only_what_the_module_defines_itself_and_each_once(self, write: Write) -> None:
        write("shop.py", SHOP)
        write(
            "corner.py",
            """
            from abc import ABC, abstractmethod
            from bandstand.bus.contracts.capability import Capability
            from shop import Stock, Till

            class Shared(Capability, ABC):
                @abstractmethod
                def more(self): ...

            class _Hidden(Capability): pass

            class Kiosk(Capability):
                '''A small one.'''

            Alias = Kiosk
            """,
        )
        assert names("corner") == ["Kiosk"]

    def test_a_name_inside_a_name(self, write: Write) -> None:
        write(
            "shop.py",
            """
            from bandstand.bus.contracts.capability import Capability
            class Floor:
                class Stock(Capability):
                    '''What there is.'''
            """,
        )
        assert names("shop:Floor.Stock") == ["Stock"]

    def test_what_is_installed_is_found_as_well(self, write: Write) -> None:
        assert "Capability itself" in str(problem_of("bandstand.bus.contracts.capability:Capability"))


class TestAFile:
    def test_takes_the_place_of_no_module(self, write: Write) -> None:
        import json

        write("json.py", SHOP)
        assert names("./json.py") == ["Stock", "Till"]
        assert sys.modules["json"] is json

    def test_can_lie_anywhere_and_imports_what_lies_beside_it(self, write: Write) -> None:
        write("far/beside_it.py", "WORD = 'Here'\n")
        path = write("far/shop.py", "import beside_it\n" + dedent(SHOP) + "Stock.id = beside_it.WORD\n")
        (stock,) = load_capabilities(f"{path}:Stock")
        assert isinstance(stock, type)
        assert issubclass(stock, Capability)
        assert stock.id == "Here"

    def test_shadows_nothing_with_what_lies_beside_it(self, write: Write) -> None:
        write("far/colorsys.py", "raise RuntimeError('the wrong one')\n")
        path = write("far/shop.py", "import colorsys\n" + dedent(SHOP))
        assert names(str(path)) == ["Stock", "Till"]

    def test_two_of_one_name_are_two(self, write: Write) -> None:
        write("one/shop.py", SHOP)
        write("two/shop.py", SHOP)
        assert load_capabilities("one/shop.py:Stock") != load_capabilities("two/shop.py:Stock")

    def test_resolves_its_own_annotations(self, write: Write) -> None:
        from typing import get_type_hints

        write(
            "shop.py",
            """
            from __future__ import annotations
            from dataclasses import dataclass
            from bandstand.bus.contracts.capability import Capability
            @dataclass
            class Price: cents: int
            class Stock(Capability):
                '''What there is.'''
                def price(self, msg: Price) -> Price: ...
            """,
        )
        (stock,) = load_capabilities("shop.py")
        assert isinstance(stock, type)
        assert get_type_hints(vars(stock)["price"])["msg"].__name__ == "Price"


class TestWhatIsNotThere:
    def test_a_module_that_is_shadowed_by_a_package_of_the_same_name(self, write: Write) -> None:
        write("json/shop.py", SHOP)
        assert "(but there is a file json/shop.py: pass that)" in str(problem_of("json.shop"))
        assert names("json/shop.py") == ["Stock", "Till"]

    def test_what_is_no_python_file(self, write: Write) -> None:
        write("far/notes.txt", "x")
        assert "must end in .py" in str(problem_of("far/notes.txt"))

    @pytest.mark.parametrize(
        "target", ["", ":", ":Stock", "shop:", "shop:5", "shop:a b", "sh op", "5shop", "a..b", "-m"]
    )
    def test_what_names_nothing(self, write: Write, target: str) -> None:
        write("shop.py", SHOP)
        assert repr(target.partition(":")[0]) in str(problem_of(target)) or repr(target) in str(
            problem_of(target)
        )

    def test_a_package(self, write: Write) -> None:
        assert "(there is no nowhere)" in str(problem_of("nowhere.to.be:found"))


class TestWhatCannotBeImported:
    @pytest.mark.parametrize("place", ["broken", "broken.py"])
    @pytest.mark.parametrize(
        ("text", "cause", "told"),
        [
            ("1 // 0", ZeroDivisionError, "ZeroDivisionError: "),
            ("def", SyntaxError, "SyntaxError: "),
            ("import not_to_be_found", ModuleNotFoundError, "No module named 'not_to_be_found'"),
            ("import sys; sys.exit(3)", SystemExit, "SystemExit: 3"),
        ],
    )
    def test_is_told_with_its_cause(
        self, write: Write, place: str, text: str, cause: type[BaseException], told: str
    ) -> None:
        write("broken.py", text)
        found = problem_of(place)
        assert str(found).startswith(f"{place} cannot be imported: ")
        assert told in str(found)
        assert isinstance(found.__cause__, cause)

    def test_a_file_that_failed_can_be_tried_again(self, write: Write) -> None:
        write("shop.py", "1 // 0")
        problem_of("shop.py")
        write("shop.py", SHOP)
        assert names("shop.py") == ["Stock", "Till"]

    def test_an_interrupt_is_let_through(self, write: Write) -> None:
        write("broken.py", "raise KeyboardInterrupt")
        with pytest.raises(KeyboardInterrupt):
            load_capabilities("broken.py")


class TestWhatIsNoCapability:
    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("x = 5", "shop:x is 5: pass a class that derives from Capability"),
            ("class x: pass", "shop:x is the class x: pass a class"),
            ("x = []", "shop:x is empty"),
            ("x = {}", "shop:x is {}"),
            ("x = [5]", "shop:x[0] is 5"),
            ("x = [int]", "shop:x[0] is the class int"),
            ("def x(): return 5", "shop:x() is 5"),
            ("def x(): return []", "shop:x() is empty"),
            ("def x(): return x", "shop:x() is <function x"),
            ("def x(a): ...", "shop:x cannot be called without arguments: missing a required argument: 'a'"),
            ("def x(): 1 // 0", "shop:x raised ZeroDivisionError"),
            ("def x(): raise SystemExit(3)", "shop:x raised SystemExit"),
            ("x = dir", "shop:x()[0] is '"),
            ("x = getattr", "shop:x raised TypeError"),
            ("async def x(): ...", "shop:x is an async function"),
        ],
    )
    def test_is_refused_by_name(self, write: Write, text: str, told: str) -> None:
        write("shop.py", text)
        assert told in str(problem_of("shop:x"))

    def test_a_module_with_contracts_is_told_how_to_name_them(self, write: Write) -> None:
        write(
            "shop.py",
            """
            from bandstand.bus.contracts.capability import Contract
            audit = Contract(id="Audit", description="Writes down.", inbound=None, spawn=object)
            """,
        )
        assert str(problem_of("shop")).endswith("; it has audit: pass shop:audit")


class TestTheCurrentDirectory:
    def test_comes_first_and_once(self, write: Write) -> None:
        write("shop.py", SHOP)
        load_capabilities("shop")
        load_capabilities("shop:Till")
        assert sys.path[0] == str(Path.cwd())
        assert sys.path.count(str(Path.cwd())) == 1
