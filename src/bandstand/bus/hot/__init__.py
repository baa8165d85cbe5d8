"""The hot modules of the bus: what every request passes on its way in, to its handler and back.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold. What is rare (errors, faults,
restarts, subscriptions) is left to the classes that derive from these.
"""

import os

import bandstand
from bandstand.mode import announce

# By their folders: a client needs none of what is in these rooms.
_BELOW = [os.path.join(bandstand.__path__[0], room, "hot") for room in ("core", "actor")]

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

announce(__name__, __path__[0], MODULES, below=_BELOW)
