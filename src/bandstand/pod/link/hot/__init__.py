"""The hot modules of a link: what every message passes on its way to another process, and every answer on its way back.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold. What is rare (hello and goodbye, exceptions,
large buffers, the event loop) is left to the modules around them.
"""

import bandstand.actor.hot
import bandstand.core.hot
from bandstand.mode import announce

MODULES = (
    "doors",
    "frames",
    "inbound",
    "ledger",
    "outgoing",
    "outlet",
    "packer",
    "plain",
    "receipts",
    "sorting",
    "standin",
    "strand",
    "tray",
)

announce(__name__, __path__[0], MODULES, below=[*bandstand.core.hot.__path__, *bandstand.actor.hot.__path__])
