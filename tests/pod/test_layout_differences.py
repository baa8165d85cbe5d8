"""What differs between layouts, and is not promised."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import pytest

from bandstand.actor import Actor, ask, tell
from bandstand.errors import MailboxFullError
from bandstand.pod.declaration import pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec
from tests.pod.troupes import COOPERATIVE, DEDICATED, PROCESS

pytestmark = [
    pytest.mark.guarantee("G172"),
    pytest.mark.spec("S12", "S19"),
    pytest.mark.slow,
    pytest.mark.real_time(reason="threads and processes live in real time"),
]

carried: ContextVar[str] = ContextVar("carried", default="none")
other: ContextVar[str] = ContextVar("other", default="none")


class Refused(Exception):  # noqa: N818  # it is an answer
    """Its constructor takes other arguments than `args` has."""

    def __init__(self, what: str, *, code: int) -> None:
        super().__init__(f"{what} ({code})")
        self.code = code


class Target(Actor):
    def __init__(self) -> None:
        self.seen: list[object] = []

    @tell
    def put(self, value: object) -> None:
        self.seen.append(value)

    @ask
    def all(self) -> list[object]:
        return self.seen

    @ask
    def append(self, values: list[int]) -> int:
        values.append(5)
        return len(values)

    @ask
    def are_one(self, one: list[int], two: list[int]) -> bool:
        return one is two

    @ask(raises=Refused)
    def refuse(self) -> None:
        raise Refused("no", code=7)

    @ask
    def numbers(self) -> object:
        return (n for n in range(3))

    @ask
    def context(self) -> tuple[str, str]:
        return carried.get(), other.get()


class Peers(Directory):
    target: Target


class Caller(Actor):
    def __init__(self, peers: Peers) -> None:
        self.target = peers.target

    @ask
    async def refused(self) -> tuple[Any, ...]:
        try:
            await self.target.refuse()
        except Refused as error:
            return error.args, error.code, type(error.__cause__).__name__
        raise AssertionError("it was not refused")

    @ask
    async def identity(self) -> bool:
        values = [1]
        return await self.target.are_one(values, values)

    @ask
    async def changed_argument(self) -> list[int]:
        values: list[int] = []
        assert await self.target.append(values) == 1
        return values

    @ask
    async def changed_answer(self) -> list[object]:
        (await self.target.all()).append("mine")
        return list(await self.target.all())

    @ask
    async def generator(self) -> str:
        try:
            return type(await self.target.numbers()).__name__
        except TypeError as error:
            return str(error).partition(":")[0]

    @ask
    async def unpicklable(self) -> str:
        try:
            self.target.put(lambda: 5)
        except TypeError:
            return "TypeError"
        return "sent"

    @ask
    async def context(self) -> tuple[str, str]:
        carried.set("c")
        other.set("o")
        return await self.target.context()

    @ask
    def flood(self) -> str:
        try:
            for n in range(1100):
                self.target.put(n)
        except MailboxFullError:
            return "full"
        return "never full"


class Pair(Troupe):
    carries = (carried,)
    target = pod().expose(Target)
    caller = pod().expose(Caller, directory(Peers))


def layout(target: ThreadModel, caller: ThreadModel | None) -> dict[str, PodSpec]:
    """Each in a pod of its own; or both in one."""
    roles = {role.name: role for each in Pair.layout().values() for role in each.roles}
    if caller is None:
        return {"both": PodSpec(name="both", thread=target, roles=tuple(roles.values()))}
    return {
        "one": PodSpec(name="one", thread=target, roles=(roles["target"],)),
        "two": PodSpec(name="two", thread=caller, roles=(roles["caller"],)),
    }


TOGETHER = layout(DEDICATED, None)
COOPERATING = layout(COOPERATIVE, COOPERATIVE)
THREADS = layout(DEDICATED, DEDICATED)
PROCESSES = layout(PROCESS, PROCESS)
NEAR = {"together": TOGETHER, "cooperative": COOPERATING, "threads": THREADS}


@pytest.mark.parametrize("where", NEAR.values(), ids=NEAR)
def test_in_one_process_objects_are_shared_and_all_context_travels(where: dict[str, PodSpec]) -> None:
    with Pair(layout=where) as troupe:
        assert troupe.caller.identity.blocking() is True
        assert troupe.caller.changed_argument.blocking() == [5]
        assert troupe.caller.changed_answer.blocking() == ["mine"]
        assert troupe.caller.generator.blocking() == "generator"
        assert troupe.caller.unpicklable.blocking() == "sent"
        assert troupe.caller.context.blocking() == ("c", "o")
        assert troupe.caller.refused.blocking() == (("no (7)",), 7, "NoneType")
        if where is not THREADS:  # there it depends on how fast the other thread is
            assert troupe.caller.flood.blocking() == ("never full" if where is TOGETHER else "full")


def test_to_another_process_copies_go_and_what_is_named() -> None:
    with Pair(layout=PROCESSES) as troupe:
        # One object in one message stays one.
        assert troupe.caller.identity.blocking() is True
        assert troupe.caller.changed_argument.blocking() == []
        assert troupe.caller.changed_answer.blocking() == []
        assert troupe.caller.generator.blocking() == "the answer cannot be sent to another process"
        assert troupe.caller.unpicklable.blocking() == "TypeError"
        assert troupe.caller.context.blocking() == ("c", "none")
        assert troupe.caller.refused.blocking() == (("no (7)",), 7, "RemoteTraceback")
        assert troupe.caller.flood.blocking() == "full"
