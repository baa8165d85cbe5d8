"""The hot modules of the scope room: what every element of a channel goes through.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold.
"""

import bandstand.core.hot
from bandstand.mode import announce

MODULES = ("choosing", "feeding", "parked", "passage", "pipe", "store")

announce(__name__, __path__[0], MODULES, below=bandstand.core.hot.__path__)
