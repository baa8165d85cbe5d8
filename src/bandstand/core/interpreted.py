"""What the hot modules ask of the name `cython` where Cython is not installed: only whether they are compiled."""

from typing import Final

compiled: Final = False
