"""Random trees of tokens against a naive model, in virtual time: who is cancelled, why, and who has been told how often.

The model knows no lists and no wheel. It writes down when each token was cancelled by somebody and when its deadline is, and
answers every question from that, by looking at all ancestors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bandstand.core import Loop
from bandstand.scope.cancel import CancelToken
from bandstand.testing import VirtualClock
from tests.scope.support import has_timers, is_linked_correctly

NEVER = float("inf")


@dataclass(eq=False)
class Ear:
    """Counts, and notes when."""

    now: Callable[[], int]
    told: list[int] = field(default_factory=list[int])

    def on_cancelled(self) -> None:
        self.told.append(self.now())


@dataclass(eq=False)
class Model:
    """What the naive model knows of one token."""

    token: CancelToken
    parent: Model | None
    deadline: float = NEVER
    cancelled_at: float = NEVER
    reason: str | None = None
    """What somebody said who cancelled it first."""
    seen: str | None = None
    """What the token said when it was first looked at: it never says anything else."""
    ears: list[Ear] = field(default_factory=list[Ear])
    """Those who listen, or have been told."""

    def path(self) -> list[Model]:
        return [self, *([] if self.parent is None else self.parent.path())]

    def events(self, now: float) -> dict[str, float]:
        """All that has cancelled it so far, in words, and when."""
        found: dict[str, float] = {}
        for each in self.path():
            if each.reason is not None:
                found[each.reason] = each.cancelled_at
            if each.deadline <= now:
                found[f"{each.token.number}: its deadline"] = each.deadline
        return found

    def says(self) -> str | None:
        """What the token says, in words that can be told apart."""
        reason = self.token.reason
        if reason is None or not reason.startswith("its deadline"):
            return reason
        return f"{self.token.origin}: its deadline"


class TokensAgainstModel(RuleBasedStateMachine):
    """One loop, driven by hand, whose clock only the rules move."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock(autojump=False)
        self.start = self.clock.now_ns()
        self.loop = Loop(clock=self.clock)
        self.models: list[Model] = []
        self.words = 0

    def teardown(self) -> None:
        for model in self.models:
            for ear in model.ears:
                model.token.remove_listener(ear)
        self.loop.poll_once()
        assert not has_timers(self.loop), "nobody listens any more"
        self.loop.destroy()

    def now(self) -> int:
        return (self.clock.now_ns() - self.start) // 1_000_000

    @initialize()
    def plant(self) -> None:
        self.models.append(Model(CancelToken(loop=self.loop), None))

    @rule(pick=st.integers(0, 10**6), ms=st.none() | st.integers(0, 40), is_root=st.booleans())
    def grow(self, pick: int, ms: int | None, is_root: bool) -> None:
        parent = None if is_root and pick % 4 == 0 else self.models[pick % len(self.models)]
        timeout = None if ms is None else ms / 1000
        if parent is None:
            token = CancelToken(timeout=timeout, loop=self.loop)
        else:
            token = parent.token.child(timeout=timeout)
        self.models.append(Model(token, parent, NEVER if ms is None else self.now() + ms))

    @rule(pick=st.integers(0, 10**6))
    def cancel(self, pick: int) -> None:
        model = self.models[pick % len(self.models)]
        was_over = bool(model.events(self.now()))
        self.words += 1
        reason = f"reason {self.words}"
        assert model.token.cancel(reason) == (not was_over)
        if not was_over:
            model.reason, model.cancelled_at = reason, self.now()

    @rule(pick=st.integers(0, 10**6))
    def listen(self, pick: int) -> None:
        model = self.models[pick % len(self.models)]
        ear = Ear(self.now)
        model.ears.append(ear)
        model.token.add_listener(ear)
        assert len(ear.told) == bool(model.events(self.now())), "at once if it is over, else not yet"

    @rule(pick=st.integers(0, 10**6))
    def leave(self, pick: int) -> None:
        everybody = [(model, ear) for model in self.models for ear in model.ears]
        if everybody:
            model, ear = everybody[pick % len(everybody)]
            assert model.token.remove_listener(ear) == (not ear.told)
            model.ears.remove(ear)

    @rule(ms=st.integers(0, 30))
    def pass_time(self, ms: int) -> None:
        self.clock.advance(ms / 1000)

    @rule()
    def turn_the_wheel(self) -> None:
        self.loop.poll_once()
        for model in self.models:
            if model.events(self.now()):
                assert all(len(ear.told) == 1 for ear in model.ears), "whoever listened has been told by now"

    @rule(ms=st.integers(1, 30))
    def live(self, ms: int) -> None:
        """Time passes and the wheel turns with it: whoever listens is told at the very millisecond, with the right reason."""
        self.loop.poll_once()
        waiting = [(model, ear) for model in self.models for ear in model.ears if not ear.told]
        for _ in range(ms):
            self.clock.advance(0.001)
            self.loop.poll_once()
        for model, ear in waiting:
            events = model.events(self.now())
            assert ear.told == ([min(events.values())] if events else [])
            if events:
                assert events[model.says() or ""] == ear.told[0]

    @rule(pick=st.integers(0, 10**6))
    @precondition(lambda self: len(self.models) > 1)
    def drop(self, pick: int) -> None:
        """Forget a token without children or listeners: nobody may miss it."""
        model = self.models[pick % len(self.models)]
        if not model.ears and not any(each.parent is model for each in self.models):
            self.models.remove(model)

    @rule(pick=st.integers(0, 10**6))
    def look(self, pick: int) -> None:
        model = self.models[pick % len(self.models)]
        events = model.events(self.now())
        assert model.token.cancelled == bool(events)
        said = model.says()
        if not events:
            assert said is None
            assert model.token.origin is None
            return
        assert said in events
        assert model.seen in {None, said}, "what it says never changes"
        model.seen = said
        if model.parent is not None and model.parent.says() in events and model.reason is None:
            own = f"{model.token.number}: its deadline"
            assert said in {model.parent.says(), own}, "its own, or what its parent says"

    @invariant()
    def nobody_is_told_twice_or_without_reason(self) -> None:
        for model in self.models:
            events = model.events(self.now())
            for ear in model.ears:
                assert len(ear.told) <= 1
                if ear.told:
                    assert min(events.values(), default=NEVER) <= ear.told[0], "never early"

    @invariant()
    def whoever_is_cancelled_by_somebody_has_told_everybody(self) -> None:
        for model in self.models:
            if any(each.reason is not None for each in model.path()):
                assert all(ear.told for ear in model.ears)

    @invariant()
    def the_tree_is_tidy(self) -> None:
        assert is_linked_correctly(*(model.token for model in self.models))

    @invariant()
    def timers_are_for_those_who_listen(self) -> None:
        wanted = any(
            each.deadline < NEVER
            for model in self.models
            if any(not ear.told for ear in model.ears)
            for each in model.path()
        )
        assert has_timers(self.loop) == wanted


TestTokensAgainstModel = pytest.mark.spec("K4")(
    pytest.mark.guarantee("G100", "G101", "G102", "G103")(TokensAgainstModel.TestCase)
)
