"""Reading what a capability declares, in either form, into a blueprint.

Everything that can be wrong with a declaration is found here, before anything starts, and said with the names of capability,
method and field: nothing is left to find out at the first message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from inspect import cleandoc, signature
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from bandstand.bus.contracts.blueprint import Blueprint, Entry
from bandstand.bus.contracts.capability import Capability, Provision
from bandstand.bus.contracts.contract import Contract
from bandstand.bus.contracts.discover import UNSAID, Branch, branches_of
from bandstand.bus.contracts.handlers import handlers_of
from bandstand.bus.contracts.legality import (
    check_contract,
    check_inbound,
    check_options,
    check_outbound,
    check_remember,
    check_retries,
    check_subscribes,
)
from bandstand.bus.contracts.payload import Payload
from bandstand.bus.frame import Kind
from bandstand.errors import BadContract
from bandstand.errors.formatting import safe_repr, safe_str

__all__ = ("blueprint_of",)

Entries = dict[tuple[Kind, str], Entry]
# Any, here and below: which type a payload is of, the capability knows.
Payloads = dict[tuple[Kind, str], Payload[Any]]


class _Reading(NamedTuple):
    """What the types of a class say, apart from its options. Nothing of it changes, so nodes can share it."""

    description: str
    entries: Entries
    payloads: Payloads


# Nearly all of the time that a node takes to boot is spent reading types, and a class says the same each time: a
# program that starts many nodes, as a test suite does, reads each class once. For the runtime's own, other names are legal.
_Readings = WeakKeyDictionary[type[Capability], _Reading]
_read_before: tuple[_Readings, _Readings] = (WeakKeyDictionary(), WeakKeyDictionary())


def blueprint_of(source: type | Contract | Provision, *, is_builtin: bool = False) -> Blueprint:
    """Read what a capability declares.

    Args:
        source: a class that derives from `Capability`, `provide(...)` of one, or a `Contract`.
        is_builtin: whether it is one of the runtime's own, which alone may handle `Syscall.`, `Timer.` and `Dead.`, and say `Sys.`.

    Raises:
        BadContract: it cannot be served; says why, and where.
    """
    if isinstance(source, Contract):
        return _of_contract(source, is_builtin=is_builtin)
    if isinstance(source, Provision):
        blueprint = _of_class(source.kind, source.make, is_builtin=is_builtin)
        return blueprint if source.elsewhere is None else replace(blueprint, elsewhere=source.elsewhere)
    # Whatever the annotation says, anything may have been passed.
    given: object = source
    if isinstance(given, type) and issubclass(given, Capability):
        _check_constructor(given)
        return _of_class(given, given, is_builtin=is_builtin)
    raise BadContract(
        f"{safe_repr(source)} is no capability: pass a class that derives from Capability, or a Contract"
    )


def _of_contract(contract: Contract, *, is_builtin: bool) -> Blueprint:
    where = f"capability {contract.id}"
    check_contract(contract, where)
    said, payloads = _read_outbound(contract.outbound, where, is_builtin=is_builtin)
    entries: Entries = {}
    for branch in () if contract.inbound is None else branches_of(contract.inbound, f"{where}: inbound"):
        check_inbound(branch, where, is_builtin=is_builtin)
        reply: Payload[Any] | None = None
        if branch.kind != "event":
            given = said.pop(("reply", branch.type), None)
            if given is not None and branch.reply is not UNSAID and given.payload != branch.reply:
                raise BadContract(
                    f"{where}: outbound has another type for the reply to {branch.type} than its class: leave one of them out"
                )
            wanted = given.payload if given is not None else None if branch.reply is UNSAID else branch.reply
            reply = payloads["reply", branch.type] = Payload(wanted, f"the reply to {branch.type}")
        entries[branch.kind, branch.type] = _entry(branch, reply)
    _override(entries, contract, where)
    for kind, type_name in said:
        if kind == "reply":
            raise BadContract(f"{where}: outbound has a reply to {type_name}, which inbound does not have")
    for type_name in check_subscribes(contract.subscribes, where):
        payload: Payload[Any] = Payload(Any, f"event {type_name}")
        entries.setdefault(("event", type_name), Entry(kind="event", type=type_name, payload=payload))
    return _blueprint(contract, contract.id, contract.description, entries, payloads, contract.spawn)


def _override(entries: Entries, contract: Contract, where: str) -> None:
    """Put what a contract says of retries and repeats in place of what the classes say."""
    retried = check_retries(contract.retry, entries, where)
    remembered = check_remember(contract.remember, entries, where)
    for key, entry in entries.items():
        if entry.kind == "event":
            continue
        if entry.type in retried:
            entries[key] = replace(entries[key], retry=contract.retry[entry.type])
        if entry.type in remembered:
            entries[key] = replace(entries[key], is_remembered=contract.remember[entry.type])


def _of_class(kind: type[Capability], make: Callable[[], Any], *, is_builtin: bool) -> Blueprint:
    name = kind.id or kind.__name__
    where = f"capability {name}"
    check_options(where, name, kind.policy, kind.mailbox_cap, kind.timeout_ms, kind.refuses)
    before = _read_before[is_builtin]
    reading = before.get(kind)
    if reading is None:
        reading = before[kind] = _read_class(kind, where, is_builtin=is_builtin)
    return _blueprint(kind, name, reading.description, reading.entries, reading.payloads, make)


def _read_class(kind: type[Capability], where: str, *, is_builtin: bool) -> _Reading:
    said, payloads = _read_outbound(kind.outbound, where, is_builtin=is_builtin)
    for each, type_name in said:
        if each == "reply":
            raise BadContract(
                f"{where}: outbound has a reply to {type_name}: what the reply is, its handler's return annotation says"
            )
    entries: Entries = {}
    for handler in handlers_of(kind, where):
        branch = handler.branch
        check_inbound(branch, f"{where}: {handler.method}()", is_builtin=is_builtin)
        other = entries.get((branch.kind, branch.type))
        if other is not None:
            raise BadContract(
                f"{where}: both {other.method}() and {handler.method}() handle {branch.kind} {branch.type}: exactly one may"
            )
        reply: Payload[Any] | None = None
        if branch.kind != "event":
            reply = payloads["reply", branch.type] = Payload(handler.reply, f"the reply to {branch.type}")
        entries[branch.kind, branch.type] = _entry(branch, reply, handler.method, handler.description)
    return _Reading(_purpose(kind, where), entries, payloads)


def _blueprint(
    options: type[Capability] | Contract,
    name: str,
    description: str,
    entries: Entries,
    payloads: Payloads,
    make: Callable[[], Any],
) -> Blueprint:
    if not entries and not payloads:
        raise BadContract(
            f"capability {name} takes nothing and says nothing: annotate its handlers' parameters with message classes"
        )
    return Blueprint(
        id=name,
        description=description,
        entries=MappingProxyType(entries),
        outbound=MappingProxyType(payloads),
        subscribes=tuple(type_name for kind, type_name in entries if kind == "event"),
        make=make,
        is_class=not isinstance(options, Contract),
        policy=options.policy,
        refuses=options.refuses,
        mailbox_cap=options.mailbox_cap,
        timeout_ms=options.timeout_ms,
        elsewhere=options.elsewhere if isinstance(options, Contract) else None,
    )


def _entry(
    branch: Branch, reply: Payload[Any] | None, method: str | None = None, description: str = ""
) -> Entry:
    return Entry(
        kind=branch.kind,
        type=branch.type,
        payload=Payload(branch.payload, f"{branch.kind} {branch.type}"),
        shape=branch.shape,
        description=branch.description or description,
        method=method,
        reply=reply,
        retry=branch.retry,
        is_remembered=branch.is_remembered,
    )


def _read_outbound(
    annotation: Any, where: str, *, is_builtin: bool
) -> tuple[dict[tuple[Kind, str], Branch], Payloads]:
    found = () if annotation is None else branches_of(annotation, f"{where}: outbound")
    said: dict[tuple[Kind, str], Branch] = {}
    payloads: Payloads = {}
    for branch in found:
        check_outbound(branch, where, is_builtin=is_builtin)
        said[branch.kind, branch.type] = branch
        payloads[branch.kind, branch.type] = Payload(branch.payload, f"{branch.kind} {branch.type}")
    return said, payloads


def _purpose(kind: type[Capability], where: str) -> str:
    """The first paragraph of the docstring of a class, or of one that it derives from."""
    for each in kind.__mro__[: kind.__mro__.index(Capability)]:
        text = cleandoc(vars(each).get("__doc__") or "")
        if text:
            return " ".join(text.partition("\n\n")[0].split())
    raise BadContract(
        f"{where} has no docstring: say in a sentence what it is for; people and language models read it"
    )


def _check_constructor(kind: type[Capability]) -> None:
    try:
        signature(kind).bind()
    except TypeError as error:
        raise BadContract(
            f"capability {kind.__name__}: its constructor takes arguments ({safe_str(error)}): pass provide({kind.__name__}, ...)"
        ) from error
