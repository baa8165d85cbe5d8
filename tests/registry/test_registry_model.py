"""Random registrations, exits and restarts against a simple model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from bandstand.actor import ActorSystem, child, id_of, is_alive
from bandstand.core import LoopConfig
from bandstand.errors import NameTakenError, NoSuchActorError
from bandstand.registry import Registry
from bandstand.supervision import RestartPolicy, SupervisorSpec, spawn_supervisor
from bandstand.testing import VirtualClock
from tests.core.support import settle
from tests.registry.actors import Database

NAMES = st.sampled_from(["a", "b", "c"])
PLACES = ["permanent", "temporary", "held"]


class Names(RuleBasedStateMachine):
    """The model: who has a name, as an actor's id or a place's; which places are kept, and where somebody is."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = ActorSystem(LoopConfig(), clock=VirtualClock())
        specs = [
            child("permanent").of(Database),
            child("temporary", restart=RestartPolicy.NEVER).of(Database),
            child("held").of(Database),
        ]
        spec = SupervisorSpec(children=tuple(specs), max_restarts=10_000)
        self.root = spawn_supervisor(self.loop, spec, name="root")
        self.places = {name: self.root.handle(Database, name) for name in PLACES}
        self.registry = Registry(self.loop)
        self.group = self.registry.group("all", Database)
        self.actors: list[Database] = []
        # The model.
        self.holders: dict[str, object] = {}
        self.joined: dict[object, Database] = {}
        self.kept = dict.fromkeys(PLACES, True)
        self.up = dict.fromkeys(PLACES, True)

    def teardown(self) -> None:
        self.loop.destroy()

    def lasts(self, key: object) -> bool:
        return self.kept[key] if isinstance(key, str) else key in [id_of(actor) for actor in self.actors]

    def forget(self) -> None:
        self.holders = {name: key for name, key in self.holders.items() if self.lasts(key)}
        self.joined = {key: handle for key, handle in self.joined.items() if self.lasts(key)}

    def register(self, name: str, key: object, handle: Database) -> None:
        if name in self.holders and self.holders[name] != key:
            with pytest.raises(NameTakenError):
                self.registry.register(name, handle)
        elif not self.lasts(key):
            with pytest.raises(NoSuchActorError):
                self.registry.register(name, handle)
        else:
            self.registry.register(name, handle)
            self.holders.setdefault(name, key)

    @rule()
    def spawn(self) -> None:
        self.actors.append(self.loop.spawn(Database))

    @precondition(lambda self: self.actors)
    @rule(name=NAMES, which=st.integers(0, 99))
    def register_actor(self, name: str, which: int) -> None:
        actor = self.actors[which % len(self.actors)]
        self.register(name, id_of(actor), actor)

    @rule(name=NAMES, place=st.sampled_from(PLACES))
    def register_place(self, name: str, place: str) -> None:
        if self.kept[place] or name not in self.holders:
            self.register(name, place, self.places[place])

    @rule(name=NAMES)
    def unregister(self, name: str) -> None:
        assert self.registry.unregister(name) is (self.holders.pop(name, None) is not None)

    @precondition(lambda self: self.actors)
    @rule(which=st.integers(0, 99), how=st.sampled_from(["stop", "kill", "crash"]))
    def end(self, which: int, how: str) -> None:
        actor: Any = self.actors.pop(which % len(self.actors))
        getattr(actor, how)()
        if how == "crash":
            settle(self.loop)
        self.forget()

    @precondition(lambda self: self.actors)
    @rule(which=st.integers(0, 99))
    def join(self, which: int) -> None:
        actor = self.actors[which % len(self.actors)]
        assert self.group.join(actor) is (id_of(actor) not in self.joined)
        self.joined.setdefault(id_of(actor), actor)

    @rule(place=st.sampled_from(PLACES))
    def join_place(self, place: str) -> None:
        if self.kept[place]:
            assert self.group.join(self.places[place]) is (place not in self.joined)
            self.joined.setdefault(place, self.places[place])

    @precondition(lambda self: self.joined)
    @rule(which=st.integers(0, 99))
    def leave(self, which: int) -> None:
        key = list(self.joined)[which % len(self.joined)]
        assert self.group.leave(self.joined.pop(key))

    @precondition(lambda self: self.up["permanent"])
    @rule()
    def restart(self) -> None:
        self.places["permanent"].crash()
        settle(self.loop)

    @precondition(lambda self: self.up["temporary"])
    @rule()
    def end_temporary(self) -> None:
        self.places["temporary"].stop()
        # Until its supervisor has heard of it, it is down, and keeps its name.
        self.up["temporary"] = False
        self.found_is_right()
        settle(self.loop)
        self.kept["temporary"] = False
        self.forget()

    @precondition(lambda self: self.up["held"])
    @rule()
    def hold(self) -> None:
        self.root.stop_child("held")
        self.up["held"] = False

    @precondition(lambda self: self.kept["held"] and not self.up["held"])
    @rule(deletes=st.booleans())
    def restart_or_delete(self, deletes: bool) -> None:
        if deletes:
            self.root.delete_child("held")
            self.kept["held"] = False
            self.forget()
        else:
            self.root.restart_child("held")
            self.up["held"] = True

    def is_there(self, key: object) -> bool:
        return self.up[key] if isinstance(key, str) else True

    @invariant()
    def found_is_right(self) -> None:
        assert self.registry.names() == tuple(self.holders)
        for name in ("a", "b", "c"):
            key = self.holders.get(name)
            found = self.registry.find(name, Database)
            assert (found is not None) is (key is not None and self.is_there(key))
            if found is not None:
                assert is_alive(found)
                assert found == self.places[key] if isinstance(key, str) else id_of(found) == key

    @invariant()
    def members_are_right(self) -> None:
        expected = [handle for key, handle in self.joined.items() if self.is_there(key)]
        assert list(self.group.members()) == expected


Names.TestCase.settings = settings(stateful_step_count=30)
TestNames = pytest.mark.slow(pytest.mark.guarantee("G203", "G204", "G206")(Names.TestCase))
