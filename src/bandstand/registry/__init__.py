"""Names and groups: finding an actor by what it is called, and telling several at once.

    registry = Registry(loop)
    registry.register("db", database)
    registry.get("db", Database).store(row)              # typed: a Database, or an error that says who is near
    database = await registry.wait("db", Database)       # until somebody is there

    workers = registry.group("workers", Worker)
    workers.join(worker)
    workers.tell(Worker.add, 5)                          # to each who is there; how many took it

A look never gives an actor that has ended, and a name is free before anybody hears of the death. What it promises is written down in
`docs/semantics.md`.

How the room is laid out: `registry` is the names, each with its `holder`, and those who are `waiting` for one; `group` is a group, `news` what
it says; `checks` is what is refused.
"""

from bandstand.registry.group import Group as Group
from bandstand.registry.news import Change as Change
from bandstand.registry.news import Told as Told
from bandstand.registry.registry import Registry as Registry

__all__ = ("Change", "Group", "Registry", "Told")
