"""Specs are checked when they are made: every field, every combination; and the whole tree before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, fields, replace
from enum import Enum
from typing import Any

import pytest

from bandstand.core import ActorStatus, Context, Loop
from bandstand.errors import BandstandError, InvalidArgumentError
from bandstand.supervision import (
    AnySupervisorSpec,
    AutoShutdown,
    Backoff,
    ChildSpec,
    DynamicSpec,
    Intensity,
    PartitionSpec,
    RestartPolicy,
    Shutdown,
    Strategy,
    SupervisorSpec,
    spawn_supervisor,
)
from tests.core.support import LoopMaker, collect, idle, settle
from tests.supervision.helpers import id_of, watched

pytestmark = pytest.mark.spec("J17")


INF, NAN = float("inf"), float("nan")
HUGE = 10**400
"""A number that no float can hold."""


class Other(Enum):
    """A foreign enumeration."""

    ALWAYS = "always"


class Word(str):
    """Not quite a str."""

    __slots__ = ()


def child(**given: Any) -> ChildSpec[Any]:
    return ChildSpec(**dict[str, Any](name="kid", run=idle) | given)


def empty(ctx: Context[list[Any]]) -> list[Any]:
    return []


def supervisor(**given: Any) -> SupervisorSpec:
    return SupervisorSpec(**given)


def dynamic(**given: Any) -> DynamicSpec[ChildSpec[Any]]:
    return DynamicSpec(**dict[str, Any](child=child()) | given)


def partition(**given: Any) -> PartitionSpec[ChildSpec[Any]]:
    return PartitionSpec(**dict[str, Any](child=child(), partitions=2) | given)


def backoff(**given: Any) -> Backoff:
    return Backoff(**given)


Make = Callable[..., Any]
MAKERS: tuple[Make, ...] = (child, supervisor, dynamic, partition, backoff)


# --- defaults -----------------------------------------------------------------------------------------------------------


@pytest.mark.once
def test_the_defaults_of_a_child() -> None:
    spec = ChildSpec("kid", idle)
    assert {one.name: getattr(spec, one.name) for one in fields(spec)} == {
        "name": "kid",
        "run": idle,
        "init": None,
        "restart": RestartPolicy.ALWAYS,
        "mailbox": None,
        "mailbox_cap": None,
        "keep_mailbox": False,
        "backoff": None,
        "shutdown": None,
        "significant": False,
        "max_restarts": None,
        "period": None,
    }
    assert spec.stop_timeout == 5
    assert not spec.is_supervisor


@pytest.mark.once
def test_name_run_and_init_go_by_place() -> None:
    assert ChildSpec("kid", collect, empty) == child(run=collect, init=empty)


@pytest.mark.spec("J18", "J19")
@pytest.mark.once
def test_the_defaults_of_supervisors() -> None:
    for spec in (supervisor(), dynamic(), partition()):
        assert (spec.max_restarts, spec.period) == (None, 5.0)
        assert spec.restarts == Intensity(3, 5.0)
    assert supervisor().children == ()
    assert supervisor().strategy is Strategy.ONE_FOR_ONE
    assert supervisor().auto_shutdown is AutoShutdown.NEVER
    assert dynamic().max_children is None


@pytest.mark.spec("J20")
@pytest.mark.once
def test_the_defaults_of_a_backoff() -> None:
    spec = Backoff()
    assert (spec.initial, spec.maximum, spec.factor, spec.jitter) == (0.1, 10, 2, 0)


@pytest.mark.once
@pytest.mark.parametrize("make", MAKERS[1:])
def test_only_a_child_takes_arguments_by_place(make: Make) -> None:
    with pytest.raises(TypeError, match="positional"):
        type(make())(5)


# --- good values --------------------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G45")
@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "given"),
    [
        (child, {"name": "ä name, with: everything"}),
        (child, {"run": print}),
        (child, {"run": supervisor()}),
        (child, {"run": dynamic()}),
        (child, {"run": partition()}),
        (child, {"init": empty}),
        *[(child, {"restart": mode}) for mode in RestartPolicy],
        *[(child, {"keep_mailbox": keeps}) for keeps in (True, False)],
        *[(child, {"mailbox_cap": cap}) for cap in (None, 0, 1, 1 << 30)],
        *[(child, {"mailbox": room}) for room in (None, 1, 1 << 30)],
        *[(child, {"shutdown": time}) for time in (None, 0, 0.0, 0.5, 10**7, *Shutdown)],
        (child, {"backoff": Backoff()}),
        (child, {"significant": True, "restart": RestartPolicy.ON_FAILURE}),
        (child, {"significant": True, "restart": RestartPolicy.NEVER}),
        (child, {"restart": RestartPolicy.ON_FAILURE, "backoff": Backoff(), "keep_mailbox": True}),
        (
            child,
            {"run": supervisor(), "backoff": Backoff(), "shutdown": 100, "restart": RestartPolicy.ON_FAILURE},
        ),
        (supervisor, {"children": []}),
        (supervisor, {"children": (one for one in [child()])}),
        *[(supervisor, {"strategy": one}) for one in Strategy],
        *[(supervisor, {"auto_shutdown": one}) for one in AutoShutdown],
        *[(make, {"max_restarts": one}) for make in MAKERS[1:4] for one in (0, 1, 10**6)],
        *[(make, {"period": one}) for make in MAKERS[1:4] for one in (0.001, 1, 10**9)],
        *[(dynamic, {"max_children": one}) for one in (None, 1, 10**6)],
        *[(partition, {"partitions": one}) for one in (1, 1000)],
        (backoff, {"initial": 0.001, "maximum": 0.001}),
        (backoff, {"factor": 1}),
        (backoff, {"factor": 1.5, "jitter": 10**6}),
    ],
)
def test_what_has_sense_is_accepted(make: Make, given: dict[str, Any]) -> None:
    spec = make(**given)
    for field, value in given.items():
        if field != "children":
            assert getattr(spec, field) == value


@pytest.mark.once
@pytest.mark.parametrize(
    ("shutdown", "patience"), [(None, 5), (0, 0), (12.5, 12.5), (Shutdown.KILL, 0), (Shutdown.INFINITY, None)]
)
@pytest.mark.parametrize(
    "run", [idle, supervisor(), dynamic(), partition()], ids=lambda run: type(run).__name__
)
def test_how_long_a_child_is_waited_for(run: Any, shutdown: Any, patience: float | None) -> None:
    is_patient = shutdown is None and run is not idle
    assert child(run=run, shutdown=shutdown).stop_timeout == (None if is_patient else patience)


# --- bad values ---------------------------------------------------------------------------------------------------------

NO_MILLISECONDS: tuple[object, ...] = (NAN, INF, -INF, "5", None, True, 5j, (), HUGE)
NO_COUNT: tuple[object, ...] = (-1, 1.0, "3", None, True, NAN)

BAD: list[tuple[Make, str, object]] = [
    *[(child, "name", value) for value in ("", None, 5, b"kid", Word("kid"))],
    *[(child, "run", value) for value in (None, 5, "idle", child(), [supervisor()])],
    *[(child, "init", value) for value in (5, "list", (), False, 0)],
    *[(child, "restart", value) for value in (None, "always", 0, Other.ALWAYS, Strategy.ONE_FOR_ONE)],
    *[(child, "mailbox_cap", value) for value in (-1, (1 << 30) + 1, 2.0, "64", True, False, NAN, HUGE)],
    *[(child, "keep_mailbox", value) for value in (None, "kept", 1, Shutdown.KILL)],
    *[(child, "mailbox", value) for value in (0, -1, (1 << 30) + 1, 2.0, "64", True, NAN, HUGE)],
    *[(child, "backoff", value) for value in (100, "100", True, (), Backoff, Intensity())],
    *[(child, "shutdown", value) for value in NO_MILLISECONDS if value is not None],
    *[(child, "shutdown", value) for value in (-1, -0.5, "kill", RestartPolicy.ALWAYS)],
    *[(child, "significant", value) for value in (None, 0, 1, "yes")],
    *[(supervisor, "children", [value]) for value in (None, idle, "kid", supervisor(), ("kid", idle))],
    *[(supervisor, "children", value) for value in (None, 5, child(), "kid", idle)],
    *[(supervisor, "strategy", value) for value in (None, "one_for_one", 0, RestartPolicy.ALWAYS)],
    *[(supervisor, "auto_shutdown", value) for value in (None, "never", False, Strategy.ONE_FOR_ONE)],
    *[(make, "max_restarts", value) for make in MAKERS[1:4] for value in NO_COUNT if value is not None],
    *[(make, "period", value) for make in MAKERS[1:4] for value in (*NO_MILLISECONDS, 0, 0.0, -1)],
    *[(make, "child", value) for make in (dynamic, partition) for value in (None, idle, "kid", supervisor())],
    *[(dynamic, "max_children", value) for value in (0, -1, 1.0, "5", True, NAN)],
    *[(partition, "partitions", value) for value in (0, *NO_COUNT)],
    *[
        (backoff, field, value)
        for field in ("initial", "maximum", "factor", "jitter")
        for value in NO_MILLISECONDS
    ],
    *[(backoff, field, value) for field in ("initial", "maximum") for value in (0, -1, -0.001)],
    *[(backoff, "factor", value) for value in (0.999, 0, -2)],
    *[(backoff, "jitter", value) for value in (-1, -0.001)],
]


def shown(value: object) -> str:
    return getattr(value, "__name__", repr(value))[:30]


@pytest.mark.guarantee("G45")
@pytest.mark.once
@pytest.mark.parametrize(
    ("make", "field", "value"), [pytest.param(*row, id="-".join(map(shown, row))) for row in BAD]
)
def test_a_bad_value_is_refused_and_its_field_named(make: Make, field: str, value: object) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**{field: value})
    assert field in str(caught.value)
    assert "pass" in str(caught.value), "it says what would be right"
    assert isinstance(caught.value, BandstandError)
    if make is child and field != "name":
        assert "'kid'" in str(caught.value), "it says whose"


@pytest.mark.spec("J20")
@pytest.mark.guarantee("G45")
@pytest.mark.once
@pytest.mark.parametrize("seconds", [1e10, 1e18, 1e30, 1.7e308])
@pytest.mark.parametrize("field", ["shutdown", "backoff"])
def test_a_time_that_no_loop_can_wait_for_is_refused(field: str, seconds: float) -> None:
    """A loop refuses a delay of more than a hundred years; a spec that can be made must not run into that later."""
    with pytest.raises(InvalidArgumentError, match=r"shutdown|maximum|initial"):
        child(**{field: Backoff(initial=seconds, maximum=seconds) if field == "backoff" else seconds})


@pytest.mark.spec("J20")
@pytest.mark.guarantee("G45")
def test_the_longest_time_that_is_accepted_can_be_waited_for(loop: Loop) -> None:
    years: float = 100 * 365 * 24 * 3600
    kid = child(backoff=Backoff(initial=years, maximum=years), shutdown=years)
    tree = spawn_supervisor(loop, supervisor(children=[kid], period=years))
    loop.fail_actor(id_of(tree, "kid"))
    settle(loop)
    assert loop.status(tree.actor) is ActorStatus.RUNNING
    assert loop.statistics().timers_pending == 1


@pytest.mark.guarantee("G45")
@pytest.mark.once
def test_names_are_unique_among_siblings_and_those_that_are_not_are_named() -> None:
    with pytest.raises(InvalidArgumentError, match="'a', 'c' more than once") as caught:
        supervisor(children=[child(name=name) for name in "abcca"])
    assert "children" in str(caught.value)
    nested = supervisor(children=[child(name="a", run=supervisor(children=[child(name="a")]))])
    assert nested.children[0].name == "a", "in another family it is another name"


def nested(deep: int, kind: str) -> AnySupervisorSpec:
    """Supervisors of one kind, `deep` above each other, with a child at the bottom."""
    inside = child(name="leaf")
    spec: AnySupervisorSpec = supervisor()
    for number in range(deep):
        if kind == "supervisor":
            spec = supervisor(children=[inside])
        else:
            spec = dynamic(child=inside) if kind == "dynamic" else partition(child=inside, partitions=1)
        inside = child(name=f"level{number}", run=spec)
    return spec


@pytest.mark.guarantee("G45")
@pytest.mark.parametrize("kind", ["supervisor", "dynamic", "partition"])
def test_supervisors_above_each_other_have_a_limit(loop: Loop, kind: str) -> None:
    tree = spawn_supervisor(loop, nested(50, kind))
    assert len(list(loop.tree())) == (1 if kind == "dynamic" else 51), "as deep as may be"
    tree.stop()
    settle(loop)
    assert loop.statistics().alive == 0
    with pytest.raises(InvalidArgumentError, match="more than 50 deep"):
        nested(51, kind)


# --- bad combinations ---------------------------------------------------------------------------------------------------

COMBINATIONS: list[tuple[Make, dict[str, Any], tuple[str, ...]]] = [
    (child, {"significant": True}, ("significant is True", "restart is ALWAYS")),
    (
        child,
        {"significant": True, "restart": RestartPolicy.ALWAYS},
        ("significant is True", "restart is ALWAYS"),
    ),
    (
        child,
        {"restart": RestartPolicy.NEVER, "backoff": Backoff()},
        ("restart is NEVER", "backoff is Backoff("),
    ),
    (
        child,
        {"restart": RestartPolicy.NEVER, "keep_mailbox": True},
        ("restart is NEVER", "keep_mailbox is True"),
    ),
    (child, {"mailbox": 5, "mailbox_cap": 9}, ("mailbox is 5", "mailbox_cap is 9")),
    *[
        row
        for run in (supervisor(), dynamic(), partition())
        for row in (
            (child, {"run": run, "init": empty}, ("run is a supervisor's spec", "init is")),
            (child, {"run": run, "mailbox": 64}, ("run is a supervisor's spec", "mailbox is 64")),
            (child, {"run": run, "mailbox_cap": 64}, ("run is a supervisor's spec", "mailbox_cap is 64")),
            (child, {"run": run, "mailbox_cap": 0}, ("run is a supervisor's spec", "mailbox_cap is 0")),
            (
                child,
                {"run": run, "keep_mailbox": True},
                ("run is a supervisor's spec", "keep_mailbox is True"),
            ),
        )
    ],
    (
        supervisor,
        {"children": [child(name="vital", significant=True, restart=RestartPolicy.ON_FAILURE)]},
        ("auto_shutdown is NEVER", "'vital' has significant True"),
    ),
    *[
        (
            make,
            {"child": child(name="vital", significant=True, restart=RestartPolicy.NEVER)},
            ("child 'vital' has significant True", "auto_shutdown"),
        )
        for make in (dynamic, partition)
    ],
    (backoff, {"initial": 0.2, "maximum": 0.1}, ("initial is 0.2", "maximum is 0.1")),
    (backoff, {"initial": 20}, ("initial is 20.0", "maximum is 10.0")),
    (backoff, {"maximum": 0.0995}, ("initial is 0.1", "maximum is 0.0995")),
    (backoff, {"maximum": 0.001}, ("initial is 0.1", "maximum is 0.001:")),
]


@pytest.mark.guarantee("G45")
@pytest.mark.once
@pytest.mark.parametrize(("make", "given", "named"), COMBINATIONS, ids=shown)
def test_a_bad_combination_is_refused(make: Make, given: dict[str, Any], named: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        make(**given)
    for part in named:
        assert part in str(caught.value)


@pytest.mark.guarantee("G45")
@pytest.mark.once
def test_replace_checks_as_well() -> None:
    with pytest.raises(InvalidArgumentError, match="restart is NEVER and backoff"):
        replace(child(backoff=Backoff()), restart=RestartPolicy.NEVER)


@pytest.mark.guarantee("G45")
@pytest.mark.parametrize(
    ("spec", "name", "words"),
    [
        *[(spec, "root", r"spec is .*: pass a SupervisorSpec") for spec in (None, 5, idle, "root", child())],
        *[(supervisor(), name, "name is .*pass a string") for name in ("", None, 5, b"root")],
    ],
)
def test_only_a_supervisors_spec_can_be_started(loop: Loop, spec: Any, name: Any, words: str) -> None:
    recorder = watched(loop)
    with pytest.raises(InvalidArgumentError, match=words):
        spawn_supervisor(loop, spec, name=name)
    assert recorder.entries == []


# --- frozen, and used often -----------------------------------------------------------------------------------------------


@pytest.mark.guarantee("G45")
@pytest.mark.once
@pytest.mark.parametrize("make", MAKERS)
def test_specs_are_frozen_and_closed(make: Make) -> None:
    spec = make()
    for one in fields(spec):
        with pytest.raises(FrozenInstanceError):
            setattr(spec, one.name, getattr(spec, one.name))
        with pytest.raises(FrozenInstanceError):
            delattr(spec, one.name)
    with pytest.raises((AttributeError, TypeError)):
        spec.something_else = 1
    assert spec == make()
    assert hash(spec) == hash(make())


@pytest.mark.guarantee("G45")
@pytest.mark.once
def test_a_spec_does_not_notice_what_becomes_of_the_list_it_was_made_with() -> None:
    children = [child(name="a")]
    spec = supervisor(children=children)
    children.append(child(name="a"))
    assert [one.name for one in spec.children] == ["a"]
    assert isinstance(spec.children, tuple)


@pytest.mark.guarantee("G45", "G51")
def test_one_spec_is_two_trees_with_nothing_in_common(make_loop: LoopMaker) -> None:
    states: list[list[object]] = []

    def init(ctx: Context[list[object]]) -> list[object]:
        states.append([])
        return states[-1]

    kid = ChildSpec("kid", collect, init)
    spec = supervisor(children=[kid, child(name="below", run=supervisor(children=[kid]))])
    loop, elsewhere = make_loop(), make_loop()
    trees = [spawn_supervisor(loop, spec), spawn_supervisor(loop, spec), spawn_supervisor(elsewhere, spec)]
    assert len({id_of(tree, "kid") for tree in trees}) == 3
    assert len(states) == 6
    for number, tree in enumerate(trees):
        home = elsewhere if number == 2 else loop
        home.send(id_of(tree, "kid"), number)
        settle(home)
    assert states == [[0], [], [1], [], [2], []]
    loop.fail_actor(id_of(trees[0], "kid"))
    settle(loop)
    assert [tree.children()[0].restarts for tree in trees] == [1, 0, 0]
    trees[0].stop()
    settle(loop)
    assert trees[0].child("kid") is None
    assert id_of(trees[1], "kid"), "the other tree stands"


# --- what only the loop can judge -----------------------------------------------------------------------------------------


def under(*kinds: str, leaf: ChildSpec[Any]) -> SupervisorSpec:
    """A tree whose first child could start, and somewhere below whose second the leaf is."""
    spec: Any = leaf
    for number, kind in enumerate(reversed(kinds)):
        inside = spec if number == 0 else child(name=f"level{number}", run=spec)
        if kind == "supervisor":
            spec = supervisor(children=[child(name="before"), inside])
        else:
            spec = dynamic(child=inside) if kind == "dynamic" else partition(child=inside)
    return supervisor(children=[child(name="first"), child(name="second", run=spec)])


WAYS_DOWN = [
    ("supervisor",),
    ("dynamic",),
    ("partition",),
    ("supervisor", "supervisor", "supervisor"),
    ("supervisor", "dynamic"),
    ("dynamic", "partition"),
    ("partition", "supervisor", "dynamic"),
]


@pytest.mark.guarantee("G45")
@pytest.mark.parametrize("way", WAYS_DOWN, ids="-".join)
@pytest.mark.parametrize("cap", [1, 7, 8, None, 0, 9])
def test_a_cap_within_the_loops_reserve_is_refused_before_anything_starts(
    make_loop: LoopMaker, way: tuple[str, ...], cap: int | None
) -> None:
    loop = make_loop(sys_reserved=8)
    recorder = watched(loop)
    spec = under(*way, leaf=child(name="leaf", mailbox_cap=cap))
    if cap in {None, 0, 9}:
        tree = spawn_supervisor(loop, spec)
        assert id_of(tree, "first")
        assert id_of(tree, "second")
        return
    with pytest.raises(InvalidArgumentError) as caught:
        spawn_supervisor(loop, spec)
    for part in ("'leaf'", f"mailbox_cap is {cap}", "sys_reserved is 8"):
        assert part in str(caught.value)
    assert recorder.entries == []
    assert loop.statistics().spawned == 0


@pytest.mark.guarantee("G45", "G57")
@pytest.mark.parametrize("way", [(), *WAYS_DOWN], ids="-".join)
def test_an_added_child_is_checked_with_its_children(make_loop: LoopMaker, way: tuple[str, ...]) -> None:
    loop = make_loop(sys_reserved=8)
    tree = spawn_supervisor(loop, supervisor())
    recorder = watched(loop)
    leaf = child(name="leaf", mailbox_cap=5)
    with pytest.raises(InvalidArgumentError, match=r"'leaf'.*mailbox_cap is 5 and sys_reserved is 8"):
        tree.start_child(child(name="late", run=under(*way, leaf=leaf)) if way else leaf)
    assert recorder.entries == []
    assert tree.children() == ()
