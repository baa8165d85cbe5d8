"""What follows from what, told as a tree: from any id to its causes, and to everything that it has caused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from bandstand.bus import Capability, Command, Frame, Kind, MemoryLog, Metadata
from bandstand.bus.tracing import Step, Trace, lineage_of, trace
from tests.bus.capabilities import Do, Echo, Player, Told
from tests.bus.virtual_node import Stage, Stages, staged

pytestmark = [pytest.mark.spec("C11"), pytest.mark.guarantee("G184")]


class Go(Command[None], type="Lead.Go"):
    """Have others do something."""


class Leader(Capability):
    """Has others do things."""

    outbound = Told | Do | Echo

    async def go(self, _msg: Go) -> None:
        self.bus.emit(Told("x"))
        await self.bus.ask(Echo())
        self.bus.send(Do("emit"))


class Ear(Capability):
    """Listens."""

    def told(self, msg: Told) -> None:
        pass


async def traced(stage: Stage, name: str, **more: Any) -> Any:
    return await stage.reply_to("query", "Syscall.Trace", {"id": name, **more})


def drawn(step: Any) -> Any:
    """A step as its kind and type, with its children."""
    return (f"{step['kind']} {step['type']}", [drawn(child) for child in step["children"]])


class TestTheTree:
    @staged(Leader, Player, Ear)
    async def test_it_has_everything_that_a_message_has_caused(self, stage: Stage) -> None:
        stage.command("Lead.Go", name="x")
        await stage.settle()
        found = await traced(stage, "x")
        assert (found["found"], found["complete"], found["ancestors"]) == (True, True, [])
        assert drawn(found["tree"]) == (
            "command Lead.Go",
            [
                ("event Cast.Told", []),
                ("query Cast.Echo", [("reply Cast.Echo", [])]),
                (
                    "command Cast.Do",
                    [("event Cast.Told", []), ("event Cast.Told", []), ("reply Cast.Do", [])],
                ),
                ("reply Lead.Go", []),
            ],
        )
        tree = found["tree"]
        assert tree["destination"] == "Leader"
        assert [child.get("destination") for child in tree["children"]] == ["Ear", "Cast", "Cast", None]
        # The client has said that it was at 0: then it is counted from the first that knows better.
        assert tree["afterMs"] == 0
        assert all(0 <= child["afterMs"] < 60_000 for child in tree["children"])

    @staged(Leader, Player, Ear)
    async def test_from_anywhere_up_to_where_it_began(self, stage: Stage) -> None:
        stage.command("Lead.Go", name="x")
        await stage.settle()
        tree = (await traced(stage, "x"))["tree"]
        asked = next(child for child in tree["children"] if child["kind"] == "query")
        reply = asked["children"][0]
        found = await traced(stage, reply["id"])
        assert [each["id"] for each in found["ancestors"]] == ["x", asked["id"]]
        assert (found["tree"]["id"], found["tree"]["children"], found["complete"]) == (reply["id"], [], True)

    @staged(Player)
    async def test_what_never_passed_is_not_found(self, stage: Stage) -> None:
        found = await traced(stage, "never")
        assert found == {"found": False, "ancestors": [], "tree": None, "complete": False}

    @staged(Player)
    async def test_a_dead_letter_that_is_sent_again_is_among_what_it_caused(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "raise"}, name="x")
        await stage.wait(1100)
        stage.command("Dead.Replay", {"id": "x"})
        await stage.wait(10)
        found = await traced(stage, "x")
        kinds = [drawn(child)[0] for child in found["tree"]["children"]]
        assert sorted(kinds) == ["command Cast.Do", "error Sys.ActorCrash", "event Cast.Told"]

    @staged(Player)
    async def test_more_than_was_asked_for_is_left_out_and_told(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": "emit"}, name="x")
        await stage.settle()
        found = await traced(stage, "x", limit=2)
        assert (len(found["tree"]["children"]), found["complete"]) == (1, False)

    @staged(Player, log_count=4)
    async def test_what_the_log_has_forgotten_is_told(self, stage: Stage) -> None:
        stage.command("Cast.Do", {"what": ""}, name="x")
        await stage.settle()
        assert (await traced(stage, "x"))["found"]
        for _ in range(4):
            stage.query("Cast.Echo")
        await stage.settle()
        assert not (await traced(stage, "x"))["found"]

    async def test_a_log_that_cannot_be_read_is_told(self, stages: Stages) -> None:
        class Broken(MemoryLog):
            def lineage(self, name: str, limit: int) -> tuple[Frame, ...]:
                raise OSError("disk")

        async with stages(log=Broken()) as stage:
            assert (
                "disk" in (await stage.fault_of("Sys.Refused", "query", "Syscall.Trace", {"id": "x"})).message
            )


def frame(name: str, causation: str | None = None, timestamp: float = 0, kind: Kind = "event") -> Frame:
    return Frame(kind=kind, type="A.B", data=Raw(b"{}"), metadata=Metadata(name, timestamp, causation))


def log_of(*frames: Frame) -> MemoryLog:
    log = MemoryLog(10_000)
    for each in frames:
        log.append(each)
    return log


class TestStrangers:
    """What clients say of causes need not be true."""

    def test_circles_end(self) -> None:
        log = log_of(frame("a", "b"), frame("b", "a"), frame("c", "c"))
        found = trace(log, Trace("a"), lambda _frame: None)
        assert found.found
        assert [step.id for step in found.ancestors] == ["b"]
        assert trace(log, Trace("c"), lambda _frame: None).tree is not None

    def test_a_chain_of_any_length_is_told_as_far_as_it_can_be_read(self) -> None:
        log = log_of(frame("0"), *(frame(str(number), str(number - 1)) for number in range(1, 500)))
        found = trace(log, Trace("0"), lambda _frame: None)
        assert not found.complete
        depth, step = 0, found.tree
        while step is not None:
            depth += 1
            step = step.children[0] if step.children else None
        assert depth == 50
        assert len(trace(log, Trace("499"), lambda _frame: None).ancestors) == 499

    @pytest.mark.parametrize(
        ("first", "second"),
        [(0.5, 10**400), (10**400, 0.5), (1, 10**400), (-(10**400), 0.5), (1, 1e308)],
        ids=["far", "back", "whole", "below", "float"],
    )
    def test_clocks_that_nobody_can_reckon_with(self, first: float, second: float) -> None:
        log = log_of(frame("a", None, first), frame("b", "a", second), frame("c", "b", 1.5))
        tree = trace(log, Trace("a"), lambda _frame: None).tree
        assert tree is not None
        assert all(0 <= step.after_ms <= 1 << 53 for step in (tree, *tree.children))
        assert msgspec.json.decode(msgspec.json.encode(tree), type=Step) == tree

    @pytest.mark.parametrize(
        ("times", "expected"),
        [([100, 105, 120], [0, 5, 20]), ([0, 105, 120], [0, 0, 15]), ([900, 105, 120], [0, 0, 15])],
    )
    def test_clocks_that_disagree(self, times: list[float], expected: list[int]) -> None:
        log = log_of(frame("a", None, times[0]), frame("b", "a", times[1]), frame("c", "b", times[2]))
        tree = trace(log, Trace("a"), lambda _frame: None).tree
        assert tree is not None
        assert [tree.after_ms, tree.children[0].after_ms, tree.children[0].children[0].after_ms] == expected

    @given(
        links=st.lists(st.tuples(st.integers(0, 8), st.integers(0, 9)), max_size=25),
        name=st.integers(0, 8),
        limit=st.integers(1, 12),
    )
    def test_lineages_are_bounded_and_connected(
        self, links: list[tuple[int, int]], name: int, limit: int
    ) -> None:
        frames = [frame(str(own), None if above == 9 else str(above)) for own, above in links]
        found = lineage_of(frames, str(name), limit)
        ids = [each.metadata.id for each in found]
        assert len(set(ids)) == len(ids) <= limit
        assert bool(found) == any(own == name for own, _ in links)
        if found:
            assert str(name) in ids
            # Every other is linked with one of them.
            for each in found:
                own = each.metadata
                assert (
                    own.id == str(name)
                    or own.causation in ids
                    or any(other.metadata.causation == own.id for other in found)
                )
        whole = lineage_of(frames, str(name), 100)
        assert set(ids) <= {each.metadata.id for each in whole}
        told = trace(log_of(*frames), Trace(str(name), limit=limit), lambda _frame: None)
        assert told.found == bool(found)
