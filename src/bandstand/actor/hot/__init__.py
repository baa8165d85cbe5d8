"""The hot modules of the service room: what every typed send, ask and dispatch goes through.

Compiled like those of `bandstand.core.hot`, on whose declarations they stand; the same rules hold.
"""

import bandstand.core.hot
from bandstand.mode import announce

MODULES = ("asks", "bundle", "gauge", "handle", "method", "port", "porter", "reply", "stage", "waits")

announce(__name__, __path__[0], MODULES, below=bandstand.core.hot.__path__)
