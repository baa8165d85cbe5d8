"""The two twins really are two, and each is what it says."""

from __future__ import annotations

import importlib

from bandstand.core import Loop
from tests.parity.twins import HOT, both


def test_one_is_interpreted_and_the_other_compiled() -> None:
    interpreted, compiled = both()
    for name in HOT:
        source, extension = getattr(interpreted, name), getattr(compiled, name)
        assert source is not extension
        assert str(source.__file__).endswith(".py")
        assert str(extension.__file__).endswith(".so")


def test_each_loop_stands_on_its_own_kernel() -> None:
    interpreted, compiled = both()
    for twin in (interpreted, compiled):
        assert issubclass(twin.core.Loop, twin.kernel.Kernel)
    assert not issubclass(compiled.core.Loop, interpreted.kernel.Kernel)


def test_the_running_twin_is_untouched() -> None:
    both()
    assert importlib.import_module("bandstand.core").Loop is Loop
