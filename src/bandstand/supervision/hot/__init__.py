"""The hot modules of the supervision room: what every restart goes through.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold.
"""

import bandstand.core.hot
from bandstand.mode import announce

MODULES = ("history", "planning", "rebirth", "seat")

announce(__name__, __path__[0], MODULES, below=bandstand.core.hot.__path__)
