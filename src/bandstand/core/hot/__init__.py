"""The hot modules: one source, two modes.

Each module named in ``MODULES`` is a plain, strictly typed ``.py`` file with a sibling ``.pxd`` that carries all the C
knowledge. Cython compiles the pair at install; where there is no compiler, or under ``BANDSTAND_PURE=1``, the same file
simply runs. There is no second implementation to drift away from the first, and the suite runs in both modes.

``MODULES`` is the only list: ``setup.py`` reads it from here without importing, a test holds it against the files, and
``bandstand.mode`` reports from it what really runs. The package imports no event loop and no logging.
"""

from bandstand.mode import announce

MODULES = (
    "arrivals",
    "births",
    "calls",
    "desk",
    "flights",
    "kernel",
    "life",
    "links",
    "monitors",
    "performing",
    "post",
    "pumping",
    "reach",
    "sending",
    "spawning",
    "timers",
)

announce(__name__, __path__[0], MODULES)
