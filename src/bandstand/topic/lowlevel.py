"""For those who tell of somebody's lag as topics do. A door of its own; a program does not need it."""

from bandstand.topic.lag import Lag

__all__ = ("Lag",)
