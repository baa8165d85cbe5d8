"""Declaring a troupe: what is read from its class, and every way in which it can contradict itself."""

from __future__ import annotations

from contextvars import ContextVar
from datetime import timedelta
from typing import Any, Generic, Protocol, TypeVar

import pytest

from bandstand.actor import Actor, Implements, Interface, WhenDown, tell
from bandstand.actor.handle import Handle
from bandstand.actor.reply import UNSET_TIMEOUT
from bandstand.core import LoopConfig, Overflow
from bandstand.errors import DeclarationError
from bandstand.pod.declaration import ExposedRole, HiddenRole, PodOptions, checked_plan, nested, pod
from bandstand.pod.deployment import Troupe
from bandstand.pod.directory import Directory, DirectoryRequest, directory
from bandstand.pod.enums import ThreadModel
from bandstand.pod.spec import PodSpec
from bandstand.supervision import Backoff, Intensity, RestartPolicy
from tests.pod.declaring import (
    Display,
    Engine,
    EnginePeers,
    FakeVsync,
    OtherConfig,
    Settings,
    Studio,
    Vsync,
    loose_directory,
    loose_pod,
    request_id,
    troupe_of,
)

pytestmark = pytest.mark.spec("S13")


def refusal(*bases: type, **attributes: Any) -> str:
    """Why a class of troupes with these attributes cannot be made."""
    with pytest.raises(DeclarationError) as caught:
        troupe_of(*bases, **attributes)
    return str(caught.value)


# --- what is read -----------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G132")
def test_a_class_becomes_data() -> None:
    spec = Studio.__deployment_plan__.spec
    assert (spec.name, spec.carries, spec.core, spec.stop_timeout) == ("Studio", (request_id,), None, 30.0)
    assert [each.name for each in spec.pods] == ["vsync", "engine_pod", "display"]
    vsync, engine_pod, display = spec.pods
    assert (vsync.thread, vsync.restart, vsync.core) == (ThreadModel.DEDICATED, RestartPolicy.ALWAYS, None)
    assert (engine_pod.restart, engine_pod.core) == (RestartPolicy.ON_FAILURE, 1)
    assert (display.thread, display.restart) == (ThreadModel.MAIN, RestartPolicy.NEVER)
    roles = {role.name: role for each in spec.pods for role in each.roles}
    assert [*roles] == ["vsync", "engine", "config", "display"]
    assert [name for name, role in roles.items() if role.is_exposed] == ["vsync", "engine"]
    assert (roles["vsync"].kind, roles["vsync"].args, roles["vsync"].kwargs) == (Vsync, (), {"fps": 50})
    assert (roles["engine"].args, roles["engine"].kwargs) == (
        (DirectoryRequest(EnginePeers),),
        {"threads": 2},
    )
    assert (roles["config"].mailbox, roles["config"].ask_timeout) == (100, 0.5)
    assert (roles["vsync"].mailbox, roles["vsync"].ask_timeout) == (None, UNSET_TIMEOUT)


@pytest.mark.guarantee("G132")
def test_the_defaults_are_dedicated_and_never() -> None:
    plain = troupe_of(vsync=pod().of(Vsync)).__deployment_plan__.spec.pods[0]
    assert plain == PodSpec(name="vsync", roles=plain.roles)
    assert (plain.thread, plain.restart) == (ThreadModel.DEDICATED, RestartPolicy.NEVER)


@pytest.mark.guarantee("G132")
def test_every_option_arrives() -> None:
    options: dict[str, Any] = {
        "thread": ThreadModel.PROCESS,
        "restart": RestartPolicy.ALWAYS,
        "max_restarts": 1,
        "period": 0.1,
        "backoff": Backoff(),
        "core": 2,
        "when_down": WhenDown.QUEUE,
        "down_timeout": 0.001,
        "stop_timeout": 0.002,
        "limits": LoopConfig(max_actors=5),
    }
    role = pod(**options).role(mailbox=3, overflow=Overflow.DROP_OLDEST, ask_timeout=None).expose(Vsync, 5)
    made = troupe_of(vsync=role, kubelet_core=1, stop_timeout=0.005).__deployment_plan__.spec
    assert {name: getattr(made.pods[0], name) for name in options} == options
    assert (made.core, made.stop_timeout) == (1, 0.005)
    read = made.pods[0].roles[0]
    assert (read.mailbox, read.overflow, read.ask_timeout, read.args) == (3, Overflow.DROP_OLDEST, None, (5,))


def test_durations_are_seconds_or_timedeltas_and_are_kept_in_seconds() -> None:
    half = timedelta(milliseconds=500)
    role = pod(period=half, down_timeout=half, stop_timeout=half).role(ask_timeout=half).of(Vsync, 5)
    made = troupe_of(vsync=role, inner=nested(Effects, period=half), stop_timeout=half).__deployment_plan__
    read = made.spec.pods[0]
    assert [read.period, read.down_timeout, read.stop_timeout, read.roles[0].ask_timeout] == [0.5] * 4
    assert read.restarts == Intensity(3, 0.5)
    assert (made.spec.stop_timeout, made.nested[0].period) == (0.5, 0.5)


@pytest.mark.guarantee("G134")
def test_on_the_class_a_declaration_is_itself_and_on_a_troupe_its_handle() -> None:
    studio: Any = Studio()
    assert isinstance(Studio.vsync, ExposedRole)
    assert isinstance(Studio.config, HiddenRole)
    assert isinstance(Studio.engine_pod, PodOptions)
    assert repr(Studio.vsync) == "<exposed role 'vsync': Vsync>"
    assert repr(Studio.config) == "<hidden role 'config': Config>"
    assert isinstance(studio.vsync, Handle)
    with pytest.raises(AttributeError, match=r"^Studio.config is a role"):
        studio.config = 5


def test_a_private_class_has_a_name_all_the_same() -> None:
    made: Any = type("_Inner", (Troupe,), {"a": pod().of(Vsync)})
    assert made.__deployment_plan__.spec.name == "Inner"


T = TypeVar("T")


class Shelf(Actor, Generic[T]):
    @tell
    def put(self, thing: T) -> None: ...


class ShelfPeers(Directory):
    shelf: Shelf[int]


def test_a_generic_class_can_be_given_its_arguments() -> None:
    class Store(Troupe):
        shelf = pod(thread=ThreadModel.PROCESS).expose(Shelf[int])
        solo = pod().of(Solo, directory(ShelfPeers))

    assert checked_plan(Store, Store.layout()) == Store.__deployment_plan__


# --- inheritance ------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G133")
def test_what_is_inherited_comes_first_and_can_be_declared_anew_in_its_place() -> None:
    class Louder(Studio):
        sound = pod().of(Display)
        vsync = pod(thread=ThreadModel.COOPERATIVE).expose(FakeVsync)

    spec = Louder.__deployment_plan__.spec
    assert [each.name for each in spec.pods] == ["vsync", "engine_pod", "display", "sound"]
    assert (spec.pods[0].thread, spec.pods[0].roles[0].kind) == (ThreadModel.COOPERATIVE, FakeVsync)
    assert spec.carries == (request_id,)
    assert [each.name for each in Studio.__deployment_plan__.spec.pods] == ["vsync", "engine_pod", "display"]


@pytest.mark.guarantee("G133")
def test_a_pod_declared_anew_keeps_its_roles() -> None:
    class Apart(Studio):
        engine_pod = pod(thread=ThreadModel.PROCESS)

    found = Apart.layout()["engine_pod"]
    assert (found.thread, found.core) == (ThreadModel.PROCESS, None)
    assert [role.name for role in found.roles] == ["engine", "config"]


@pytest.mark.guarantee("G133")
def test_a_role_put_elsewhere_leaves_its_pod_and_the_last_one_takes_the_pod_along() -> None:
    class First(Troupe):
        both = pod()
        one = both.expose(Vsync)
        two = both.of(Vsync)

    class Second(First):
        one = pod().expose(Vsync)

    class Third(Second):
        two = pod().of(Vsync)

    assert {name: [role.name for role in each.roles] for name, each in Second.layout().items()} == {
        "both": ["two"],
        "one": ["one"],
    }
    assert [*Third.layout()] == ["one", "two"]


# --- what is refused --------------------------------------------------------------------------------------------------


NO_CLASS = "which has no actor class: call .of(TheClass) or .expose(TheClass)"
NO_ACTOR = "is not an actor class: pass a class derived from Actor"
NO_CALL = "cannot be called with these arguments: "
SHOULD_KEEP = "with a Display: declare a class that derives from that"
ALONE: ContextVar[str] = ContextVar("alone")
# Untyped: not all of these are classes.
NO_ACTORS: tuple[Any, ...] = (5, None, Vsync(), "Vsync", Vsync.tick)


@pytest.mark.guarantee("G132", "G133")
@pytest.mark.parametrize(
    ("base", "attributes", "said"),
    [
        (Troupe, {"carries": pod()}, "Made.carries is reserved"),
        (Troupe, {"stop_timeout": nested(Studio)}, "Made.stop_timeout is reserved"),
        *(
            (Troupe, {name: pod().of(Vsync)}, f"Made.{name} is reserved")
            for name in ("start", "stop", "play", "wait", "status", "health", "phases", "stats", "failure")
        ),
        (Studio, {"engine_pod": pod().of(Vsync)}, "Made.engine_pod overrides pod(...) with <hidden role"),
        (Studio, {"config": pod().expose(Display)}, SHOULD_KEEP),
        (Studio, {"vsync": loose_pod().expose(5)}, "Made.vsync: 5 is not an actor class"),
        (Troupe, {"config": pod().of}, NO_CLASS),
        (Troupe, {"config": pod}, NO_CLASS),
        (Studio, {"other": Studio.vsync}, "the same declaration as 'vsync'"),
        (Troupe, dict.fromkeys("pq", pod()), "Made.q is the same declaration as 'p'"),
        *((Troupe, {"vsync": loose_pod().of(wrong)}, NO_ACTOR) for wrong in NO_ACTORS),
        (Troupe, {"it": loose_pod().of(Vsync, 1, 2)}, f"{NO_CALL}too many positional arguments"),
        (Troupe, {"it": loose_pod().of(Vsync, fsp=5)}, f"{NO_CALL}got an unexpected keyword argument 'fsp'"),
        (Troupe, {"it": loose_pod().expose(Engine)}, f"{NO_CALL}missing a required argument: 'peers'"),
        *(
            (Troupe, {"vsync": loose_pod(**{field: value}).of(Vsync)}, f"Made: pod 'vsync': {field} is ")
            for field, value in (
                *(
                    ("thread", "main"),
                    ("restart", None),
                    ("core", -1),
                    ("when_down", 5),
                    ("down_timeout", -1),
                ),
                *(("period", 0), ("period", True), ("max_restarts", -1), ("max_restarts", 1.0)),
                *(("stop_timeout", "1"), ("stop_timeout", True)),
            )
        ),
        (Troupe, {"it": loose_pod().role(mailbox=-1).of(Vsync)}, "Made: role 'it': mailbox is -1"),
        (Troupe, {"it": loose_pod().role(ask_timeout="x").of(Vsync)}, "Made: role 'it': ask_timeout is 'x'"),
        (Troupe, {"carries": ("request_id",)}, "carries has 'request_id': pass ContextVars"),
        (Troupe, {"carries": ALONE}, "Made.carries is <ContextVar"),
    ],
)
def test_a_wrong_declaration_is_refused(base: type, attributes: dict[str, Any], said: str) -> None:
    """The others are in `test_error_texts`."""
    assert said in refusal(base, **attributes)


def test_an_override_may_have_a_class_derived_from_that_of_the_base() -> None:
    troupe_of(Studio, vsync=pod().expose(FakeVsync), config=Studio.engine_pod.expose(OtherConfig))


# --- directories ------------------------------------------------------------------------------------------------------


def wish(**names: Any) -> Any:
    """A class of directories that wants these."""
    return type("Peers", (Directory,), {"__annotations__": names, "__module__": __name__})


class Solo(Actor):
    def __init__(self, *peers: Any, **more: Any) -> None: ...


@pytest.mark.guarantee("G132")
def test_wishes_that_can_be_fulfilled() -> None:
    for hint in (Vsync, Actor, object, Any, Vsync | None, "Vsync", "NobodyKnows", "this is no type ["):
        troupe_of(Studio, solo=pod().of(Solo, directory(wish(vsync=hint))))
    troupe_of(Studio, solo=Studio.engine_pod.of(Solo, directory(wish(config="Config", solo=Solo))))
    troupe_of(Studio, solo=pod().of(Solo, 1, peers=directory(wish(vsync=Vsync, engine=Engine))))
    troupe_of(Studio, solo=pod().of(Solo, directory(Directory)))


class Ticking(Interface, Protocol):
    @tell
    def tick(self) -> None: ...


class Storing(Interface, Protocol[T]):  # type: ignore[misc]  # pyright sees in a marked method what it is, mypy a plain one
    @tell
    def put(self, thing: T) -> None: ...


class Store(Implements[Storing[int]]):
    def put(self, thing: int) -> None: ...


@pytest.mark.guarantee("G132")
@pytest.mark.parametrize(
    ("name", "hint", "said"),
    [
        ("zebra", Any, "'zebra', but there is no such role: there is vsync, engine, config, display, solo"),
        ("vsync", FakeVsync, "'vsync' to be a FakeVsync, but it is a Vsync"),
        ("vsync", int, "'vsync' to be a int, but it is a Vsync"),
        # As it is known in the module of the directory, which is this one.
        ("vsync", "Engine", "'vsync' to be a Engine, but it is a Vsync"),
        ("vsync", Settings, "'vsync' to be a Settings, but it is a Vsync, which has no find"),
        ("engine", Ticking, "'engine' to be a Ticking, but it is a Engine, which has no tick"),
        ("vsync", Shelf[int], "'vsync' to be a Shelf, but it is a Vsync"),
    ],
)
def test_a_directory_that_cannot_be_filled_is_refused(name: str, hint: Any, said: str) -> None:
    """The others are in `test_error_texts`."""
    solo = pod().of(Solo, directory(wish(**{name: hint})))
    assert refusal(Studio, solo=solo) == f"Made: role 'solo': Peers needs {said}"


def test_a_wish_inside_of_something_else_would_never_be_fulfilled() -> None:
    wanted = loose_directory(EnginePeers)
    for inside, word in (((wanted,), "tuple"), ({"a": wanted}, "dict"), ({wanted}, "set")):
        assert refusal(Studio, solo=pod().of(Solo, inside)) == (
            f"Made: role 'solo': a directory() is inside a {word}: pass it directly as an argument"
        )


# --- troupes inside ---------------------------------------------------------------------------------------------------


class Effects(Troupe):
    reverb = pod().expose(Vsync)
    secret = pod().of(Vsync)


class EffectPeers(Directory):
    effects: Effects


@pytest.mark.spec("S17")
def test_a_troupe_inside_is_read_and_has_its_place() -> None:
    class Outer(Troupe):
        effects = nested(
            Effects, restart=RestartPolicy.ON_FAILURE, max_restarts=1, period=0.05, backoff=Backoff()
        )
        solo = pod().of(Solo, directory(EffectPeers))

    (inner,) = Outer.__deployment_plan__.nested
    assert (inner.name, inner.troupe, inner.is_watched, inner.restart) == (
        "effects",
        Effects,
        True,
        RestartPolicy.ON_FAILURE,
    )
    assert (inner.restarts, inner.backoff, inner.layout) == (Intensity(1, 0.05), Backoff(), None)
    assert [each.name for each in inner.plan.spec.pods] == ["reverb", "secret"]
    outer: Any = Outer()
    assert type(outer.effects) is Effects
    assert repr(Outer.effects) == "<nested troupe 'effects': Effects>"
    assert [*Outer.layout()] == ["solo"]
    assert checked_plan(Outer, None) is Outer.__deployment_plan__


@pytest.mark.spec("S17")
def test_a_troupe_inside_can_have_another_layout() -> None:
    layout = Effects.layout()
    together = PodSpec(name="both", roles=(*layout["reverb"].roles, *layout["secret"].roles))
    made = troupe_of(effects=nested(Effects, layout={"both": together}))
    assert made.__deployment_plan__.nested[0].plan.spec.pods == (together,)


@pytest.mark.spec("S17")
@pytest.mark.parametrize(
    ("declaration", "why"),
    [
        (nested(Effects, restart="always"), "restart is 'always': pass one of"),  # type: ignore[arg-type]  # wrong on purpose
        (nested(Effects()), "troupe is <tests.pod"),  # type: ignore[arg-type]  # likewise
        (nested(Effects, layout={}), "the layout of troupe 'Effects': role 'reverb' is in no pod"),
    ],
)
def test_a_troupe_inside_that_has_no_sense(declaration: Any, why: str) -> None:
    assert why in refusal(effects=declaration)


@pytest.mark.spec("S17")
def test_what_a_directory_wants_of_a_troupe_inside() -> None:
    effects = nested(Effects)
    assert refusal(effects=effects, solo=pod().of(Solo, directory(wish(effects=Studio)))) == (
        "Made: role 'solo': Peers needs 'effects' to be a Studio, but it is a Effects"
    )
    said = refusal(effects=nested(Effects), solo=pod().of(Solo, directory(wish(reverb=Vsync))))
    assert said.endswith("needs 'reverb', but there is no such role: there is solo, effects")
