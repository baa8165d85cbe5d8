"""What a client begins with: an address and a configuration, from what was given and what is usual."""

from __future__ import annotations

import os
from dataclasses import replace

from bandstand.bus.client.address import Address, default_address
from bandstand.bus.client.config import ClientConfig
from bandstand.errors import InvalidArgument
from bandstand.errors.formatting import safe_repr

__all__ = ("settled",)


def settled(url: str | Address | None, config: ClientConfig | None) -> tuple[Address, ClientConfig]:
    """An address and a configuration, from what was given and what is usual."""
    address = Address.parse(url) if isinstance(url, str) else url or default_address()
    config = ClientConfig() if config is None else config
    if not isinstance(config, ClientConfig):  # pyright: ignore[reportUnnecessaryIsInstance]  # callers without types
        raise InvalidArgument(f"config is {safe_repr(config)}: pass a ClientConfig")
    if config.token is None and (token := os.environ.get("BANDSTAND_TOKEN")):
        config = replace(config, token=token)
    return address, config
