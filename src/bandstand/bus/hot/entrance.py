"""The entrance: where clients' requests come in, as far as nothing stands in the way."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from bandstand.bus.hot.fields import kind_of

if TYPE_CHECKING:
    from bandstand.bus.frame import Frame
    from bandstand.bus.gate import Client
    from bandstand.bus.hot.purse import Purse
    from bandstand.bus.hot.switch import Switch
    from bandstand.bus.ports import Line

Flag: TypeAlias = bool


class Entrance:
    """The way in. `is_free` while the node is neither starting nor stopping."""

    __slots__ = ("clients", "is_free", "purse", "switch")

    def __init__(self, switch: Switch, purse: Purse) -> None:
        self.switch = switch
        self.purse = purse
        self.clients: dict[Line, Client] = {}
        self.is_free: Flag = False

    def admit(self, line: Line, frame: Frame) -> Flag:
        """Take in what a client says; False if there is no credit, or no room at its capability, now."""
        kind = kind_of(frame)
        if not self.is_free or (kind != "command" and kind != "query"):  # noqa: PLR1714  # compiled, two comparisons
            return self.admit_otherwise(line, frame)
        if self.switch.admit(self.clients[line], frame, self.purse):
            return True
        return self.admit_in_need(line, frame)

    def admit_otherwise(self, line: Line, frame: Frame) -> Flag:
        """It is no request, or the node is starting or stopping."""
        raise NotImplementedError  # a hook: who derives from this fills it in

    def admit_in_need(self, line: Line, frame: Frame) -> Flag:
        """There is no credit, or no room at its capability."""
        raise NotImplementedError  # a hook: who derives from this fills it in
