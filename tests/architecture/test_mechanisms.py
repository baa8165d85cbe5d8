"""Each mechanism is defined once. This says where, and fails when a second one appears."""

from __future__ import annotations

import re
from importlib import import_module

import pytest

from tests.architecture import package_layout

pytestmark = pytest.mark.once

HOMES = {
    "counters of messages that balance": ("core.counters", "MessageCounters"),
    "counters of asks that balance": ("actor.reply", "AskTable"),
    "counters of a pool that balance": ("pool.status", "PoolCounters"),
    "choice of one of several workers": ("pool.routing", "WorkerPicker"),
    "counters of a channel that balance": ("scope.channel", "ChannelStatistics"),
    "delivery callback": ("core.delivery", "DeliveryCallback"),
    "one-shot event for any thread": ("scope.event", "OneShotEvent"),
    "one-shot result on a loop's thread": ("actor.reply", "LocalReply"),
    "wait of a task or a thread": ("scope._channel", "Waiter"),
    "restart limit": ("supervision.restart", "Intensity"),
    "restart delay": ("supervision.restart", "Backoff"),
    "rate-limited log line": ("core.logs", "RateLimitedLog"),
    "rate-limited crash log": ("core.logs", "CrashLimiter"),
    "safe logger": ("core.logs", "SafeLogger"),
    "safe text of an object": ("errors.formatting", "safe_repr"),
    "duration in seconds": ("errors.validation", "to_ms"),
    "check of an integer": ("errors.validation", "check_int"),
    "check of a member of an enumeration": ("errors.validation", "check_member"),
    "credit of a client": ("bus.admission", "CreditLimit"),
    "capacity of a capability": ("bus.admission", "CapabilityAdmission"),
    "budget of bytes to send": ("bus.admission", "SendBudget"),
    "limits of connections": ("bus.adapters.limits", "Limits"),
    "authentication of a connection": ("bus.adapters.authentication", "TokenAuth"),
    "counters of requests that balance": ("bus.stats", "BusCounters"),
    "dead letters": ("bus.dead_letters", "DeadLetterStore"),
    "messages that are sent later": ("bus.scheduler", "Scheduler"),
    "link between processes": ("pod.link.link", "Link"),
    "control channel of a child process": ("pod.process.control", "ControlChannel"),
    "start of a child process": ("pod.process.parent", "spawn_child"),
    "addresses of pods": ("pod.address_book", "AddressBook"),
    "names of actors": ("registry.registry", "Registry"),
}

# Names that a second definition of a mechanism would have, and the one module that may define them.
NAMES = {
    r"\w*(Backoff|Intensity)": "supervision/restart.py",
    r"\w*(Limiter|RateLimited\w*)": "core/logs.py",
    r"\w*(OneShot\w*|Latch)": "scope/event.py",
    r"\w*Waiter": "scope/_channel.py",
    r"\w*Counters": "core/counters.py",
    r"_?(to_ms|check_int|check_member|is_number)": "errors/validation.py",
    r"_?safe_(repr|str|traceback)": "errors/formatting.py",
    r"\w*Logger": "core/logs.py",
    r"\w*(Credit|Capacity|Budget)\w*": "bus/admission.py",
    r"\w*DeadLetter(Store|Queue|Box)": "bus/dead_letters.py",
    r"\w*(Control|Process)Channel": "pod/process/control.py",
}
ALLOWED = {
    # It decides which events the log mentions, through a RateLimitedLog for each kind.
    ("core/events.py", "EventLogger"),
    # core/counters.py says why each kind of thing that is counted has its own counters.
    ("pool/status.py", "PoolCounters"),
    ("bus/stats.py", "BusCounters"),
    # A message to the router that makes it look at the credit of a client again.
    ("bus/ingress.py", "CreditCheck"),
    # It limits the bytes in flight to one lane of a role; the budget of the bus is for all clients together.
    ("pod/link/byte_budget.py", "ByteBudget"),
    # It shows how many restarts count, and limits nothing.
    ("supervision/restart.py", "RestartBudget"),
    # It completes a future of another thread, and waits for nothing.
    ("actor/bound_methods.py", "_FutureWaiter"),
    # It can be woken many times, and its time is that of the loop's clock also after the loop has ended.
    ("shutdown/shutdown_run.py", "ShutdownWaiter"),
}


DEFINED = {(path, node.name) for path, node in package_layout.definitions()}


@pytest.mark.parametrize("mechanism", HOMES)
def test_a_mechanism_is_where_the_table_says(mechanism: str) -> None:
    module, name = HOMES[mechanism]
    defined = getattr(import_module(f"bandstand.{module}"), name)
    assert defined.__module__ == f"bandstand.{module}"


@pytest.mark.parametrize("pattern", NAMES)
def test_no_other_module_defines_it_again(pattern: str) -> None:
    found = {(module, name) for module, name in DEFINED if re.fullmatch(pattern, name)}
    assert any(module == NAMES[pattern] for module, _ in found), (
        "the pattern matches nothing: correct the table"
    )
    assert {module for module, _ in found - ALLOWED} == {NAMES[pattern]}


def test_the_longest_time_is_written_once() -> None:
    """A hundred years, in milliseconds: timers, deadlines and timeouts share the limit."""
    found = [
        path.relative_to(package_layout.PACKAGE).as_posix()
        for package in package_layout.PACKAGES
        for path in sorted((package_layout.PACKAGE / package).rglob("*.py"))
        if "100 * 366" in path.read_text("utf-8")
    ]
    assert found == ["errors/validation.py"]
