"""A handle that is sent to another process: it means the same actor there, or it is refused."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, WhenDown, ask, tell, when_down
from bandstand.actor.handle import ref_of
from bandstand.errors import InvalidArgumentError
from bandstand.pod.declaration import nested, pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, directory
from bandstand.pod.handle_pickling import HandleToken
from bandstand.pod.pod_runtime import PodRuntime
from bandstand.pod.spec import PodSpec, RoleSpec, TroupeSpec
from tests.pod.troupes import COOPERATIVE, DEDICATED, PROCESS, Counter, Peers

pytestmark = pytest.mark.guarantee("G286")
real = pytest.mark.real_time(reason="processes are real")

REFUSED = "cannot be sent to another process"


@dataclass
class Wrapped:
    """Something that has a handle deep inside."""

    inside: dict[str, list[Any]]


class Keeper(Actor):
    """Lives in a process, and is sent handles."""

    def __init__(self, peers: Peers) -> None:
        self.peers = peers
        self.kept: list[Any] = []

    @tell
    def keep(self, what: object) -> None:
        self.kept.append(what)

    @ask
    async def value_of(self, what: Any) -> int:
        """The value of a counter whose handle has come, however deep inside."""
        if isinstance(what, Wrapped):
            what = what.inside["here"][0]
        value: int = await what.value()
        return value

    @ask
    def count(self) -> int:
        return len(self.kept)

    @ask
    def counter(self) -> Any:
        return self.peers.counter

    @ask
    def is_mine(self, what: object) -> bool:
        return what == self.peers.counter


class Company(Directory):
    keeper: Keeper
    secret: Counter


class Guard(Actor):
    """Has a private neighbour, and gives its handle away."""

    def __init__(self, company: Company) -> None:
        self.company = company

    @ask
    def secret_handle(self) -> Any:
        return self.company.secret

    @ask
    def send_secret(self) -> str:
        """Send the private handle to another process; what is raised."""
        try:
            self.company.keeper.keep([self.company.secret])
        except TypeError as error:
            return str(error)
        return ""


class Room(Troupe):
    """A counter here, a keeper and a guard in processes of their own."""

    counter = pod(thread=COOPERATIVE).expose(Counter, 1)
    keeper = pod(thread=PROCESS).expose(Keeper, directory(Peers))


class Inner(Troupe):
    counter = pod(thread=COOPERATIVE).expose(Counter, 3)


class House(Troupe):
    """A room that has another troupe inside, and two processes."""

    counter = pod(thread=COOPERATIVE).expose(Counter, 1)
    keeper = pod(thread=PROCESS).expose(Keeper, directory(Peers))
    safe = pod(thread=PROCESS)
    guard = safe.expose(Guard, directory(Company))
    secret = safe.of(Counter, 7)
    inner = nested(Inner)


class Impostor(Actor):
    """Another class under the same role name."""

    @ask
    def value(self) -> int:
        return 4


class Elsewhere(Troupe):
    counter = pod(thread=COOPERATIVE).expose(Impostor)


@pytest.fixture(scope="module")
def house() -> Iterator[House]:
    """One for all tests of this module: a process takes long to start."""
    with House() as made:
        yield made


@real
@pytest.mark.slow
def test_a_handle_of_the_same_troupe_means_the_same_actor(house: House) -> None:
    for sent in (house.counter, Wrapped({"here": [house.counter]})):
        assert house.keeper.value_of.blocking(sent) == 1
    assert house.keeper.is_mine.blocking(house.counter)
    answered = house.keeper.counter.blocking()
    assert answered == house.counter
    assert answered.value.blocking() == 1
    # What it does while its pod is down travels with it.
    role_ref = ref_of(house.keeper.counter.blocking())
    assert role_ref is not None


@real
@pytest.mark.slow
def test_a_handle_of_another_troupe_is_refused_in_the_call(house: House) -> None:
    with Room(layout={**Room.layout(), "keeper": _in_thread(Room)}) as room, Elsewhere() as elsewhere:
        strangers: list[tuple[Any, str]] = [
            (house.inner.counter, r"House\.inner"),
            (room.counter, "Room"),
            (elsewhere.counter, "Elsewhere"),
        ]
        before = house.keeper.count.blocking()
        for stranger, name in strangers:
            for sent in (stranger, [stranger], {"a": (1, stranger)}, Wrapped({"here": [stranger]})):
                with pytest.raises(TypeError, match=f"{REFUSED}.*'counter' of troupe '{name}'"):
                    house.keeper.keep(sent)
                with pytest.raises(TypeError, match=f"{REFUSED}.*'counter' of troupe '{name}'"):
                    house.keeper.value_of.blocking(sent)
        assert house.keeper.count.blocking() == before


@real
@pytest.mark.slow
def test_a_handle_that_the_receiver_may_not_see_is_refused(house: House) -> None:
    # Between two processes: in the call.
    said = house.guard.send_secret.blocking()
    assert REFUSED in said
    assert "not exposed" in said
    # In an answer: an error of the ask, and the actor lives on.
    with pytest.raises(TypeError, match="not exposed"):
        house.guard.secret_handle.blocking()
    assert REFUSED in house.guard.send_secret.blocking()


@real
@pytest.mark.slow
def test_a_handle_of_an_actor_without_a_role_is_refused(house: House) -> None:
    loop = ActorSystem()
    try:
        plain = loop.spawn(Counter)
        with pytest.raises(TypeError, match="belongs to its loop"):
            house.keeper.keep((plain,))
    finally:
        loop.destroy()


def _in_thread(troupe: type[Troupe]) -> PodSpec:
    from dataclasses import replace

    return replace(troupe.layout()["keeper"], thread=DEDICATED)


def test_handles_of_two_troupes_of_one_class_are_not_equal() -> None:
    one, two = Inner(), Inner()
    assert one.counter == one.counter
    assert one.counter != two.counter
    assert len({one.counter, two.counter}) == 2


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_handle_is_pickled_for_a_message_and_for_nothing_else(copied: Callable[[Any], Any]) -> None:
    troupe = Inner()
    with pytest.raises(TypeError, match="a message to a process pod"):
        copied([troupe.counter] if copied is copy.deepcopy else troupe.counter)


def test_a_handle_among_the_arguments_of_a_process_pod_is_refused_before_it_starts() -> None:
    troupe = Inner()

    argument: Any = troupe.counter

    class Hidden(Troupe):
        keeper = pod(thread=PROCESS).expose(Keeper, argument)

    with pytest.raises(InvalidArgumentError, match="role 'keeper' of process pod 'keeper': argument 1"):
        Hidden()


def _runtime() -> PodRuntime:
    roles = (RoleSpec(name="counter", kind=Counter, is_exposed=True), RoleSpec(name="secret", kind=Counter))
    return PodRuntime(TroupeSpec(name="Studio", pods=(PodSpec(name="one", roles=roles),)), None, 1)


def test_what_the_receiver_cannot_resolve_is_an_error_that_names_it() -> None:
    runtime = _runtime()
    here = runtime.spec.identity
    good = HandleToken(here.token, "Studio", "counter", Counter, WhenDown.FAIL, 5.0)
    handle: Any = runtime.resolve(*good)
    assert handle == runtime.handle("counter")
    role_ref: Any = ref_of(handle)
    assert role_ref.role == "counter"
    for token, why in (
        (
            good._replace(deployment="other", path="Other.deep"),
            "'counter' of troupe 'Other.deep'.*another troupe",
        ),
        (good._replace(role="secret"), "not exposed"),
        (good._replace(role="nobody"), "no role 'nobody'"),
        (good._replace(kind=Impostor), "Impostor"),
    ):
        with pytest.raises(InvalidArgumentError, match=why):
            runtime.resolve(*token)
    assert when_down(handle, WhenDown.QUEUE) == handle
