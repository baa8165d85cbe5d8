"""How deep a line of JSON is nested.

A decoder works its way into a value by calling itself, and so does whoever encodes it again, or prints it: what one of them can
just about manage is too much for the next, who has a few calls above it more. So there is a limit far below what any of them can take, and
it is looked at before anybody decodes anything.
"""

from __future__ import annotations

from typing import TypeAlias

Count: TypeAlias = int


def is_deeper(line: bytes, limit: Count) -> bool:
    """Whether arrays and objects are nested more than `limit` deep. What is inside of strings does not count."""
    size = len(line)
    place = 0
    depth = 0
    while place < size:
        byte = line[place]
        if byte == 34:  # a quotation mark: to the end of the string
            place += 1
            while place < size and line[place] != 34:
                place += 2 if line[place] == 92 else 1  # a backslash takes the next one along
        elif byte == 91 or byte == 123:  # noqa: PLR1714  # [ and {; compiled, two comparisons
            depth += 1
            if depth > limit:
                return True
        elif byte == 93 or byte == 125:  # noqa: PLR1714  # ] and }; likewise
            depth -= 1
        place += 1
    return False
