"""Names and groups: find an actor by name, and send to several actors at once.

    registry = Registry(system)
    registry.register("db", database)
    registry.get("db", Database).store(row)              # typed: a Database, or an error that lists similar names
    database = await registry.wait("db", Database)       # waits until the name is registered

    workers = registry.group("workers", Worker)
    workers.join(worker)
    workers.tell(Worker.add, 5)                          # sends to each live member and counts who took it

A lookup never returns an actor that has ended, and a name is free before any monitor reports the exit. The guarantees are in
`docs/guarantees.md`.
"""

# Modules: `registry` holds the names and the waits for them, `group` the groups.

from bandstand.registry.group import Change as Change
from bandstand.registry.group import Group as Group
from bandstand.registry.group import Told as Told
from bandstand.registry.registry import Registry as Registry

__all__ = ("Change", "Group", "Registry", "Told")
