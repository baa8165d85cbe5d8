"""Starts the processes of isolated capabilities."""

from __future__ import annotations

import pickle
import socket
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, overload

from bandstand.bus import Capability, Contract, Provision, provide
from bandstand.bus.loading import loaded_files
from bandstand.errors import ContractError
from bandstand.errors.formatting import safe_str
from bandstand.isolation.child import CapabilityStart, Source, run_capability
from bandstand.isolation.host import IsolatedHost
from bandstand.pod.process import ChildProcess, spawn_child
from bandstand.streams import child_stdout

if TYPE_CHECKING:
    from bandstand.bus.capability_slot import CapabilitySlot

__all__ = ("ProcessHostFactory", "isolated")


@overload
def isolated(source: Contract, /) -> Contract: ...


@overload
def isolated(source: type[Capability] | Provision, /) -> Provision: ...


def isolated(source: Source, /) -> Provision | Contract:
    """Return the same capability, to be run in a process of its own: a new one for each incarnation.

    Args:
        source: what a node takes: a class, the result of `provide(...)`, or a `Contract`. It is pickled together with the arguments
            of its constructor, so classes and functions must be found by name in their modules.

    Raises:
        ContractError: it cannot be pickled; the text says why.
    """
    if not isinstance(source, (Contract, Provision)):
        source = provide(source)
    plain = replace(source, host_factory=None)
    name = plain.id if isinstance(plain, Contract) else plain.kind.id or plain.kind.__name__
    try:
        factory = ProcessHostFactory(loaded_files(), pickle.dumps(plain))
    except Exception as error:
        # Pickling runs code of the program, which may raise anything.
        raise ContractError(
            f"capability {name} cannot run in a process of its own, because it cannot be pickled: {safe_str(error)}. Classes and functions "
            f"must stand at the top of a module, and what its constructor is given must be plain data"
        ) from error
    return replace(plain, host_factory=factory)


@dataclass(frozen=True, slots=True)
class ProcessHostFactory:
    """Creates hosts that run a capability in a child process.

    Attributes:
        files: the files that were loaded by path, in which the capability may be declared.
        source: the capability, pickled.
    """

    files: tuple[str, ...]
    source: bytes

    def create_host(self, slot: CapabilitySlot, /) -> IsolatedHost:
        """Create the host of one incarnation."""
        return IsolatedHost(slot, self.launch)

    async def launch(self, slot: CapabilitySlot) -> tuple[ChildProcess, socket.socket]:
        """Start a process, and return it with the node's end of its link.

        Raises:
            StartError: it did not start.
            OSError: there is no socket for the link.
        """
        index = slot.router.index
        known = frozenset(() if index is None else index.handlers)
        start = CapabilityStart(self.files, self.source, slot.router.config, known)
        target = f"{run_capability.__module__}:{run_capability.__name__}"
        child = await spawn_child(target, name=slot.id, payload=start, stdout=child_stdout())
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                child.control.send(None, (theirs.fileno(),))
        except BaseException:  # nothing may be left of the process
            await child.close()
            raise
        return child, ours
