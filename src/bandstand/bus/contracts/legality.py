"""What a capability may call itself and its messages. The names of the runtime's own are not for everybody."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, cast

from bandstand.bus.contracts.contract import Contract, RestartLimits
from bandstand.bus.contracts.discover import Branch
from bandstand.bus.contracts.messages import TYPE_NAME
from bandstand.bus.contracts.retry import Retry
from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_repr

__all__ = (
    "BUILTIN",
    "check_contract",
    "check_inbound",
    "check_options",
    "check_outbound",
    "check_remember",
    "check_retries",
    "check_subscribes",
)

ID: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*")
LARGEST_CAP: Final = 1_000_000_000

SYSTEM: Final = "Sys."
"""What the types of the runtime's own errors and events begin with."""
BUILTIN: Final = ("Syscall.", "Timer.", "Dead.")
"""What the types of the built-in capabilities begin with."""


# Any, here and below: whether the values are of the right type is what is found out.
def check_options(
    where: str, name: Any, policy: Any, mailbox_cap: Any, timeout_ms: Any, refuses: Any
) -> None:
    """Refuse a name or options that have no sense."""
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise BadContract(
            f"{where}: id is {safe_repr(name)}: use letters, digits and dashes, beginning with a letter, as 'Memory'"
        )
    if not isinstance(policy, RestartLimits):
        raise BadContract(f"{where}: policy is {safe_repr(policy)}: pass a RestartLimits")
    for option, value, most in (
        ("mailbox_cap", mailbox_cap, LARGEST_CAP),
        ("timeout_ms", timeout_ms, LONGEST_TIMEOUT_MS),
    ):
        if value is not None and (type(value) is not int or not 1 <= value <= most):
            raise BadContract(
                f"{where}: {option} is {safe_repr(value)}: pass an int from 1 to {most}, or None for the node's default"
            )
    if not isinstance(refuses, tuple):
        raise BadContract(
            f"{where}: refuses is {safe_repr(refuses)}: pass a tuple of exception classes, as (ValueError,)"
        )
    for each in cast("tuple[object, ...]", refuses):
        shown = safe_repr(each)
        if not (isinstance(each, type) and issubclass(each, Exception)):
            raise BadContract(
                f"{where}: refuses has {shown}: pass classes that derive from Exception, as ValueError"
            )


def check_contract(contract: Contract, where: str) -> None:
    """Refuse a contract that cannot be read on."""
    check_options(
        where, contract.id, contract.policy, contract.mailbox_cap, contract.timeout_ms, contract.refuses
    )
    said: object = contract.description
    if not isinstance(said, str) or not said.strip():
        raise BadContract(f"{where}: description is {safe_repr(said)}: say in a sentence what it is for")
    if not callable(contract.spawn):
        raise BadContract(
            f"{where}: spawn is {safe_repr(contract.spawn)}: pass a function without arguments that makes the worker"
        )


def check_inbound(branch: Branch, where: str, *, is_builtin: bool) -> None:
    """Refuse to handle what is the runtime's own, and what nobody can be sent."""
    if branch.kind == "event":
        # Listening takes nothing from anybody.
        return
    if branch.kind not in {"command", "query"}:
        raise BadContract(
            f"{where}: {branch.kind} {branch.type} cannot be taken: answers go to whoever has asked; take commands, queries "
            f"and events"
        )
    if branch.type.startswith(SYSTEM) or (branch.type.startswith(BUILTIN) and not is_builtin):
        raise BadContract(
            f"{where}: {branch.type} cannot be handled: types that begin with {', '.join((SYSTEM, *BUILTIN))} are the "
            f"runtime's own; choose another first word"
        )


def check_outbound(branch: Branch, where: str, *, is_builtin: bool) -> None:
    """Refuse to say what only the runtime says."""
    is_request = branch.kind in {"command", "query"}
    is_own = branch.type.startswith(SYSTEM) or (branch.type.startswith(BUILTIN) and not is_request)
    if is_own and not is_builtin:
        raise BadContract(
            f"{where}: outbound has {branch.kind} {branch.type}: types that begin with {', '.join((SYSTEM, *BUILTIN))} are the "
            f"runtime's own; choose another first word"
        )


def check_retries(retry: Any, handled: Collection[tuple[str, str]], where: str) -> tuple[str, ...]:
    """The types that a contract has tried again.

    Raises:
        BadContract: one of them is not handled, or has no `Retry`.
    """
    if not isinstance(retry, Mapping):
        raise BadContract(f"{where}: retry is {safe_repr(retry)}: pass a dict, as {{'Memory.Set': Retry()}}")
    for name, value in cast("Mapping[object, object]", retry).items():
        if ("command", name) not in handled and ("query", name) not in handled:
            raise BadContract(f"{where}: retry has {name!r}, which is no command or query of its inbound")
        if not isinstance(value, Retry):
            raise BadContract(f"{where}: retry has {safe_repr(value)} for {name}: pass a Retry")
    return tuple(cast("Mapping[str, Retry]", retry))


def check_remember(remember: Any, handled: Collection[tuple[str, str]], where: str) -> tuple[str, ...]:
    """The types of which a contract says whether repeats get the first one's answer.

    Raises:
        BadContract: one of them is not handled, or has neither True nor False.
    """
    if not isinstance(remember, Mapping):
        raise BadContract(
            f"{where}: remember is {safe_repr(remember)}: pass a dict, as {{'Memory.Get': True}}"
        )
    for name, value in cast("Mapping[object, object]", remember).items():
        if ("command", name) not in handled and ("query", name) not in handled:
            raise BadContract(
                f"{where}: remember has {safe_repr(name)}, which is no command or query of its inbound"
            )
        if not isinstance(value, bool):
            raise BadContract(f"{where}: remember has {safe_repr(value)} for {name}: pass True or False")
    return tuple(cast("Mapping[str, bool]", remember))


def check_subscribes(types: Any, where: str) -> tuple[str, ...]:
    """The types of events that a capability listens to.

    Raises:
        BadContract: they are none.
    """
    if isinstance(types, str) or not isinstance(types, Sequence):
        raise BadContract(
            f"{where}: subscribes is {safe_repr(types)}: pass a list of types, as ['Memory.Changed']"
        )
    for name in cast("Sequence[object]", types):
        if not isinstance(name, str) or not TYPE_NAME.fullmatch(name):
            raise BadContract(
                f"{where}: subscribes has {name!r}: pass words with dots between them, as 'Memory.Changed'"
            )
    return tuple(dict.fromkeys(cast("Sequence[str]", types)))
