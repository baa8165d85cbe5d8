"""The hot modules of the bus: what every request passes on its way in, to its handler and back.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold. What is rare (errors, faults,
restarts, subscriptions) is left to the classes that derive from these.
"""

import bandstand.core.hot
import bandstand.service.hot
from bandstand.mode import announce

MODULES = (
    "codec",
    "cutting",
    "entrance",
    "fields",
    "idmaker",
    "intake",
    "lines",
    "log",
    "nesting",
    "outbox",
    "party",
    "pending",
    "purse",
    "roll",
    "route",
    "stand",
    "switch",
    "tally",
)

announce(
    __name__, __path__[0], MODULES, below=[*bandstand.core.hot.__path__, *bandstand.service.hot.__path__]
)
