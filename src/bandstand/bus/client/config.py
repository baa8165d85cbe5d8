"""How a client behaves: frozen, and checked before anything is connected."""

from __future__ import annotations

from dataclasses import dataclass, field

from bandstand.bus.frame import LONGEST_TIMEOUT_MS
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr
from bandstand.supervision import Backoff

__all__ = ("ClientConfig",)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig:
    """What a client waits for, and how long.

    Raises:
        InvalidArgument: a value can never work. The message names the field.
    """

    timeout_ms: int = 30_000
    """How long a call may take that does not say; both ends know it."""
    window: int = 256
    """How many requests may be without an answer at once; further ones wait their turn."""
    buffer: int = 1024
    """How many events wait for whoever reads a subscription; what comes beyond that is missed, and told as a `Gap`."""
    wait_ms: int = 0
    """How long to wait, when connecting, for a node that is not there yet; with 0 there is one attempt."""
    dial_ms: int = 5000
    """How long one attempt to connect may take, up to the node's answer where it has to be greeted."""
    give_up_ms: int = 60_000
    """How long to look for a node that has hung up, until everything that waits for it fails; with 0 it is not looked for."""
    backoff: Backoff = field(default_factory=lambda: Backoff(initial_ms=50, max_ms=2000, jitter_ms=25))
    """The times between attempts to connect."""
    retry_overloaded: bool = True
    """Whether a call that is answered with `Sys.Overloaded` is sent again, after 10 ms and then at growing intervals, until it is answered otherwise or its
    time is over. It is safe: such a request was never handled."""
    token: str | None = field(default=None, repr=False)
    """What a node at a TCP port may ask for before it lets anybody in; `$BANDSTAND_TOKEN` if it is None."""

    def __post_init__(self) -> None:
        self._check("timeout_ms", 1)
        self._check("window", 1, 1 << 20)
        self._check("buffer", 1, 1 << 24)
        self._check("wait_ms", 0)
        self._check("dial_ms", 1)
        self._check("give_up_ms", 0)
        if not isinstance(self.backoff, Backoff):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
            raise InvalidArgument(f"ClientConfig: backoff is {safe_repr(self.backoff)}: pass a Backoff")
        if type(self.retry_overloaded) is not bool:
            raise InvalidArgument(
                f"ClientConfig: retry_overloaded is {safe_repr(self.retry_overloaded)}: pass True or False"
            )
        if self.token is not None and (type(self.token) is not str or not self.token):
            # Not what it is: that is a secret.
            raise InvalidArgument("ClientConfig: token is no string, or empty: pass what the node was given")

    def _check(self, name: str, least: int, most: int = LONGEST_TIMEOUT_MS) -> None:
        value: object = getattr(self, name)
        if type(value) is not int or not least <= value <= most:
            raise InvalidArgument(
                f"ClientConfig: {name} is {safe_repr(value)}: pass an int from {least} to {most}"
            )
