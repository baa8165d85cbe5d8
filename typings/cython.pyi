"""What type checkers know of `cython`: the checked source is the interpreted one."""

from typing import Literal

compiled: Literal[False]
