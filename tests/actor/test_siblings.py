"""References to siblings in specs: `child("b").of(B, sibling(A, "a"))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.actor import Actor, ActorSystem, ask, child, id_of, sibling, tell
from bandstand.core import Context
from bandstand.errors import InvalidArgumentError, StartError
from bandstand.supervision import (
    ChildSpec,
    DynamicSpec,
    PartitionSpec,
    SupervisorSpec,
)
from tests.actor.players import turns
from tests.actor.workers import Worker, one_for_one
from tests.core.support import settle

pytestmark = [pytest.mark.guarantee("G313"), pytest.mark.spec("J21")]


class Store(Actor):
    def __init__(self) -> None:
        self.items: list[str] = []

    @tell
    def put(self, item: str) -> None:
        self.items.append(item)

    @ask
    def all(self) -> list[str]:
        return self.items


class Clerk(Actor):
    def __init__(self, store: Store, prefix: str = "", *, spare: Store | None = None) -> None:
        self.store = store
        self.prefix = prefix
        self.spare = spare

    @ask
    async def sell(self, item: str) -> list[str]:
        self.store.put(self.prefix + item)
        return await self.store.all()

    @ask
    def handles(self) -> tuple[Store, Store | None]:
        return self.store, self.spare


STORE = child("store").of(Store)


def raw(ctx: Context[None], data: object) -> None:
    """A child that is not typed."""


async def test_an_argument_is_the_handle_of_the_sibling(loop: ActorSystem) -> None:
    spec = child("clerk").of(Clerk, sibling(Store, "store"), "a ", spare=sibling(Store, "store"))
    root = one_for_one(loop, STORE, spec)
    clerk = root.handle(Clerk, "clerk")
    assert await clerk.sell("cup") == ["a cup"]
    store, spare = await clerk.handles()
    assert store == spare == root.handle(Store, "store")
    assert id_of(store) == root.address("store")
    clerk.kill()
    assert await clerk.sell("pot") == ["a cup", "a pot"]  # a restart resolves it again
    root.handle(Store, "store").kill()
    await turns()
    assert await clerk.sell("cup") == ["a cup"]  # the handle outlives the sibling's restart


async def test_a_branch_is_wired_again_when_its_supervisor_is_restarted(loop: ActorSystem) -> None:
    branch = SupervisorSpec(
        children=[STORE, child("clerk").of(Clerk, sibling(Store, "store"))], max_restarts=0
    )
    root = one_for_one(loop, ChildSpec("branch", branch))
    clerk = root.handle(Clerk, "branch", "clerk")
    assert await clerk.sell("cup") == ["cup"]
    first = root.address("branch")
    clerk.kill()  # the branch gives up, and is restarted as a whole
    assert await clerk.sell("pot") == ["pot"]
    assert root.address("branch") != first


async def test_start_child_resolves_siblings(loop: ActorSystem) -> None:
    root = one_for_one(loop, STORE)
    root.start_child(child("clerk").of(Clerk, sibling(Store, "store")))
    assert await root.handle(Clerk, "clerk").sell("cup") == ["cup"]
    with pytest.raises(InvalidArgumentError, match=r"no sibling 'stoer': did you mean 'store'\?"):
        root.start_child(child("other").of(Clerk, sibling(Store, "stoer")))
    assert [info.name for info in root.children()] == ["store", "clerk"]


def test_a_sibling_that_was_deleted_fails_the_start(loop: ActorSystem) -> None:
    root = one_for_one(loop, STORE, child("clerk").of(Clerk, sibling(Store, "store")))
    settle(loop)
    for name in ("clerk", "store"):
        root.stop_child(name)
    root.delete_child("store")
    with pytest.raises(StartError, match="clerk"):
        root.restart_child("clerk")


def spec_of(*children: ChildSpec[Any]) -> Callable[[], object]:
    return lambda: SupervisorSpec(children=children)


CLERK = child("clerk").of(Clerk, sibling(Store, "store"))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            spec_of(child("stores").of(Store), CLERK),
            r"child 'clerk': there is no sibling 'store': did you mean 'stores'\?",
        ),
        (spec_of(child("x").of(Store), CLERK), "child 'clerk': there is no sibling 'store'; there is 'x'"),
        (spec_of(CLERK), "child 'clerk': there is no sibling 'store'; there is none"),
        (
            spec_of(child("store").of(Worker, []), CLERK),
            "child 'clerk': sibling 'store' is a Worker, not a Store",
        ),
        (spec_of(ChildSpec("store", raw), CLERK), "sibling 'store' is not a typed actor, not a Store"),
        (
            spec_of(child("store").of(Clerk, sibling(Store, "store"))),
            "'store' is the child itself: use self.me",
        ),
        (lambda: DynamicSpec(child=CLERK), "DynamicSpec: child 'clerk' refers to sibling 'store'"),
        (
            lambda: PartitionSpec(child=CLERK, partitions=2),
            "PartitionSpec: child 'clerk' refers to sibling 'store'",
        ),
        (lambda: sibling(int, "store"), "int"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType, reportCallIssue]  # callers without types
        (lambda: sibling(Store, ""), "name is ''"),
    ],
)
def test_wrong_references_are_refused_when_the_spec_is_made(make: Callable[[], object], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        make()
