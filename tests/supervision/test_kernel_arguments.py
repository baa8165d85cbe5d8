"""The calls of the kernel that supervisors use refuse wrong arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bandstand.core import Loop
from bandstand.core.enums import SystemTag
from bandstand.errors import ActorNotLocalError, InvalidArgumentError
from tests.core.support import LoopMaker, idle

CALLS: dict[str, Callable[[Loop, Any], object]] = {
    "end": lambda loop, actor: loop.kernel.actors.stop_or_kill(actor),
    "declare": lambda loop, actor: loop.kernel.actors.declare_started(actor),
    "family": lambda loop, actor: loop.kernel.actors.set_child_group(actor, None),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # never looked at
    "after": lambda loop, actor: loop.kernel.start_system_timer(actor, 1, None, SystemTag.SHUTDOWN),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_value_that_is_not_an_actor_is_refused(loop: Loop, call: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not an actor id"):
        CALLS[call](loop, None)


@pytest.mark.parametrize("call", CALLS)
def test_an_actor_of_another_loop_is_refused(make_loop: LoopMaker, call: str) -> None:
    loop, other = make_loop(), make_loop()
    foreign = other.spawn(idle)
    with pytest.raises(ActorNotLocalError):
        CALLS[call](loop, foreign)
    assert (loop.statistics().alive, other.statistics().alive) == (0, 1)


def test_a_value_that_is_not_a_mailbox_is_refused(loop: Loop) -> None:
    with pytest.raises(InvalidArgumentError, match="mailbox is None"):
        loop.kernel.discard_mailbox(None)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]  # on purpose
