"""The two builds really are two: one is interpreted, the other compiled."""

from __future__ import annotations

import importlib

from bandstand.core import Loop
from tests.parity.builds import MODULES, both_builds


def test_one_is_interpreted_and_the_other_compiled() -> None:
    interpreted, compiled = both_builds()
    for name in MODULES:
        source, extension = interpreted[name], compiled[name]
        assert source is not extension
        assert str(source.__file__).endswith(".py")
        assert str(extension.__file__).endswith(".so")


def test_each_build_has_its_own_loop() -> None:
    interpreted, compiled = both_builds()
    assert interpreted.core.Loop is not compiled.core.Loop
    for build in (interpreted, compiled):
        own = {id(value) for module in build.modules.values() for value in vars(module).values()}
        bases = [base for base in build.core.Loop.__mro__ if base.__module__.startswith("bandstand.core")]
        assert all(id(base) in own for base in bases)


def test_the_running_build_is_untouched() -> None:
    both_builds()
    assert importlib.import_module("bandstand.core").Loop is Loop
