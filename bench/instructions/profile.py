"""What callgrind wrote, read: the instructions of each function, its callees' included or not, and how often it was called."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_COST = re.compile(r"[-+*0-9]")
_CYTHON = re.compile(r"__pyx_(pw|pf|fuse|f|tp_[a-z]+(?:_[a-z]+)*|getprop|setprop)_(\d.*)")
_RECURSION = re.compile(r"'\d+$")
_KINDS = {"pw": " (called from Python)"}


@dataclass
class Profile:
    """Counts by function, as callgrind names it."""

    own: Counter[str] = field(default_factory=Counter[str])
    inclusive: Counter[str] = field(default_factory=Counter[str])
    """Callees included. Recursion by way of another function is counted each time it goes round."""
    calls: Counter[str] = field(default_factory=Counter[str])

    @property
    def total(self) -> int:
        return self.own.total()


@dataclass(frozen=True)
class Line:
    """A function's share of one operation."""

    name: str
    own: float
    inclusive: float
    calls: float


class Names:
    """The names in a file: each is written once, with its number; later there is only the number."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def resolve(self, reference: str) -> str:
        """Find the name; the depth of a recursion, which callgrind puts behind it, is not part of it."""
        match = _NAME.fullmatch(reference)
        if match is None:
            return _RECURSION.sub("", reference)
        number, name = match.groups()
        if name is not None:
            self._known[number] = _RECURSION.sub("", name)
        return self._known[number]


def read(text: str) -> Profile:
    """Read a file of callgrind's, whose event is instructions alone."""
    profile, names = Profile(), Names()
    function = callee = ""
    is_call = False
    for line in text.splitlines():
        if line.startswith("fn="):
            function = names.resolve(line[3:])
        elif line.startswith("cfn="):
            callee = names.resolve(line[4:])
        elif line.startswith("calls="):
            profile.calls[callee] += int(line[6:].split()[0])
            is_call = True
        elif _COST.match(line):
            cost = int(line.split()[1])
            if not is_call:
                profile.own[function] += cost
            if not is_call or callee != function:
                profile.inclusive[function] += cost
            is_call = False
    return profile


def per_operation(shorter: Profile, longer: Profile, operations: int) -> list[Line]:
    """What one operation costs in each function, where it costs anything: the most expensive by itself first."""
    lines = [
        Line(
            readable(name),
            (longer.own[name] - shorter.own[name]) / operations,
            (longer.inclusive[name] - shorter.inclusive[name]) / operations,
            (longer.calls[name] - shorter.calls[name]) / operations,
        )
        for name in longer.inclusive
    ]
    return sorted((line for line in lines if line.inclusive > 0), key=lambda line: -line.own)


def readable(name: str) -> str:
    """Give a function of Cython's the name it has in Python: module, class, method."""
    match = _CYTHON.fullmatch(name)
    if match is None:
        return name
    kind, rest = match.groups()
    words = list(_words(rest))
    if kind.startswith("tp_"):
        words.append(kind)
    dotted = ".".join(words).removeprefix("bandstand.")
    return dotted + _KINDS.get(kind, "")


def _words(rest: str) -> Iterable[str]:
    """Take apart what Cython has put together: each word after its length, the last after a number, or after nothing."""
    while rest:
        match = re.match(r"(\d+)(.*)", rest)
        if match is None:
            yield rest
            return
        length, tail = int(match[1]), match[2]
        word, after = tail[:length], tail[length:]
        if len(word) < length or (after and not after.startswith("_")):
            yield tail  # it was not the length but a running number
            return
        yield word
        rest = after[1:]
