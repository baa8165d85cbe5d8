"""Trees of cancel tokens, compared with a naive model in virtual time: which are cancelled, why, and which listeners were called.

The model stores when each token was cancelled and when its deadline is, and looks at all ancestors.
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
class Listener:
    """Records when it is called."""

    now: Callable[[], int]
    calls: list[int] = field(default_factory=list[int])

    def on_cancelled(self) -> None:
        self.calls.append(self.now())


@dataclass(eq=False)
class Model:
    """What the model knows of one token."""

    token: CancelToken
    parent: Model | None
    deadline: float = NEVER
    cancelled_at: float = NEVER
    reason: str | None = None
    """What somebody said who cancelled it first."""
    seen: str | None = None
    """What the token said when it was first looked at: it never reason_of_token anything else."""
    listeners: list[Listener] = field(default_factory=list[Listener])
    """Those who listen, or have been calls."""

    def path(self) -> list[Model]:
        return [self, *([] if self.parent is None else self.parent.path())]

    def events(self, now: float) -> dict[str, float]:
        """Return what has cancelled it so far, and when."""
        found: dict[str, float] = {}
        for each in self.path():
            if each.reason is not None:
                found[each.reason] = each.cancelled_at
            if each.deadline <= now:
                found[f"{each.token.number}: its deadline"] = each.deadline
        return found

    def reason_of_token(self) -> str | None:
        """Return the reason of the token, with the origin of a deadline."""
        reason = self.token.reason
        if reason is None or not reason.startswith("its deadline"):
            return reason
        return f"{self.token.origin}: its deadline"


class TokensAgainstModel(RuleBasedStateMachine):
    """A loop that is polled by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock(autojump=False)
        self.start = self.clock.now_ns()
        self.loop = Loop(clock=self.clock)
        self.models: list[Model] = []
        self.words = 0

    def teardown(self) -> None:
        for model in self.models:
            for listener in model.listeners:
                model.token.remove_listener(listener)
        self.loop.poll_once()
        assert not has_timers(self.loop), "nobody listens any more"
        self.loop.destroy()

    def now(self) -> int:
        return (self.clock.now_ns() - self.start) // 1_000_000

    @initialize()
    def begin(self) -> None:
        self.models.append(Model(CancelToken(loop=self.loop), None))

    @rule(pick=st.integers(0, 10**6), ms=st.none() | st.integers(0, 40), is_root=st.booleans())
    def add_token(self, pick: int, ms: int | None, is_root: bool) -> None:
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
        listener = Listener(self.now)
        model.listeners.append(listener)
        model.token.add_listener(listener)
        assert len(listener.calls) == bool(model.events(self.now())), "at once if it is over, else not yet"

    @rule(pick=st.integers(0, 10**6))
    def leave(self, pick: int) -> None:
        everybody = [(model, listener) for model in self.models for listener in model.listeners]
        if everybody:
            model, listener = everybody[pick % len(everybody)]
            assert model.token.remove_listener(listener) == (not listener.calls)
            model.listeners.remove(listener)

    @rule(ms=st.integers(0, 30))
    def advance(self, ms: int) -> None:
        self.clock.advance(ms / 1000)

    @rule()
    def tick(self) -> None:
        self.loop.poll_once()
        for model in self.models:
            if model.events(self.now()):
                assert all(len(listener.calls) == 1 for listener in model.listeners), (
                    "its listeners have been called"
                )

    @rule(ms=st.integers(1, 30))
    def advance_in_steps(self, ms: int) -> None:
        """Advance and poll every millisecond: listeners are called at the right one, for the right reason."""
        self.loop.poll_once()
        waiting = [
            (model, listener) for model in self.models for listener in model.listeners if not listener.calls
        ]
        for _ in range(ms):
            self.clock.advance(0.001)
            self.loop.poll_once()
        for model, listener in waiting:
            events = model.events(self.now())
            assert listener.calls == ([min(events.values())] if events else [])
            if events:
                assert events[model.reason_of_token() or ""] == listener.calls[0]

    @rule(pick=st.integers(0, 10**6))
    @precondition(lambda self: len(self.models) > 1)
    def drop(self, pick: int) -> None:
        """Drop a token without children and listeners."""
        model = self.models[pick % len(self.models)]
        if not model.listeners and not any(each.parent is model for each in self.models):
            self.models.remove(model)

    @rule(pick=st.integers(0, 10**6))
    def look(self, pick: int) -> None:
        model = self.models[pick % len(self.models)]
        events = model.events(self.now())
        assert model.token.cancelled == bool(events)
        said = model.reason_of_token()
        if not events:
            assert said is None
            assert model.token.origin is None
            return
        assert said in events
        assert model.seen in {None, said}, "what it reason_of_token never changes"
        model.seen = said
        if model.parent is not None and model.parent.reason_of_token() in events and model.reason is None:
            own = f"{model.token.number}: its deadline"
            assert said in {model.parent.reason_of_token(), own}, (
                "its own, or what its parent reason_of_token"
            )

    @invariant()
    def listeners_are_called_once_and_never_early(self) -> None:
        for model in self.models:
            events = model.events(self.now())
            for listener in model.listeners:
                assert len(listener.calls) <= 1
                if listener.calls:
                    assert min(events.values(), default=NEVER) <= listener.calls[0], "never early"

    @invariant()
    def a_cancelled_token_has_called_its_listeners(self) -> None:
        for model in self.models:
            if any(each.reason is not None for each in model.path()):
                assert all(listener.calls for listener in model.listeners)

    @invariant()
    def tokens_are_linked_correctly(self) -> None:
        assert is_linked_correctly(*(model.token for model in self.models))

    @invariant()
    def timers_exist_only_for_listeners(self) -> None:
        wanted = any(
            each.deadline < NEVER
            for model in self.models
            if any(not listener.calls for listener in model.listeners)
            for each in model.path()
        )
        assert has_timers(self.loop) == wanted


TestTokensAgainstModel = pytest.mark.spec("K4")(
    pytest.mark.guarantee("G100", "G101", "G102", "G103")(TokensAgainstModel.TestCase)
)
