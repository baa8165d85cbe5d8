"""Who hears of whose end: one `ChildExit` for each child, one `Down` for each monitor, with the right reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bandstand.core import ActorId, ChildExit, Down, ExitReason, MonitorId
from tests.soak.books import Fail

if TYPE_CHECKING:
    from tests.soak.actors import Player


class Kin:
    """Every player there ever was in a world, by the number of its actor."""

    def __init__(self, fail: Fail) -> None:
        self._fail = fail
        self.all: dict[int, Player] = {}
        self.monitors: list[tuple[MonitorId, Player, Player]] = []

    def admit(self, actor: ActorId, player: Player) -> None:
        """Note that a player has an actor now."""
        self.all[int(actor)] = player

    def hear(self, player: Player, news: ChildExit | Down) -> None:
        """Check what a player was told."""
        if isinstance(news, ChildExit):
            self._hear_exit(player, news)
        else:
            self._hear_down(player, news)

    def _hear_exit(self, player: Player, news: ChildExit) -> None:
        child = self.all.get(int(news.child))
        if child is None or child.supervisor is not player:
            self._fail(f"{player} was told of {news.child}, which is no child of its")
            return
        if child.is_exit_heard:
            self._fail(f"{player} was told twice of the end of {child}")
        child.is_exit_heard = True
        self._check_reason(child, news.reason)

    def _hear_down(self, player: Player, news: Down) -> None:
        number = int(news.actor)
        left = player.downs.get(number, 0) - 1
        if left < 0:
            self._fail(f"{player} was told once too often of the end of {news.actor}")
        self.forget(player, number)
        target = self.all.get(number)
        if target is None:
            self._fail(f"{player} was told of {news.actor}, whom nobody knows")
        else:
            self._check_reason(target, news.reason)

    def expect_down(self, player: Player, number: int) -> None:
        """Note that a player is about to monitor an actor."""
        player.downs[number] = player.downs.get(number, 0) + 1

    def forget(self, player: Player, number: int) -> None:
        """Note that one `Down` less is to come."""
        left = player.downs.pop(number, 0) - 1
        if left > 0:
            player.downs[number] = left

    def _check_reason(self, player: Player, reason: ExitReason) -> None:
        if player.reason is not None and player.reason is not reason:
            self._fail(f"{player} ended with {player.reason!r}, but {reason!r} was told")

    def close(self) -> None:
        """Check, in an observed world that has run dry and is still alive, that everything was heard."""
        for player in self.all.values():
            boss = player.supervisor
            if player.is_over and boss is not None and not boss.is_over and not player.is_exit_heard:
                self._fail(f"{boss} never heard of the end of {player}")
            if player.is_over:
                continue
            for number in player.downs:
                if self.all[number].is_over:
                    self._fail(f"{player} never heard of the end of {self.all[number]}, which it monitored")
