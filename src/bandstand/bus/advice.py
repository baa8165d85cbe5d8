"""What somebody who has just started a node may want to try: lines that can be copied into another terminal."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Callable
from typing import Final

from bandstand.bus.summary import BootSummary

__all__ = ("advise", "plug")

_BUILT_IN: Final = frozenset({"Dead", "Memory", "Syscall", "Timer"})


def advise(summary: BootSummary, program: str, token_file: str | None, *, is_default: bool) -> str:
    """What to try next: a few lines for another terminal.

    Args:
        summary: what has started.
        program: what the command is called here.
        token_file: where the token lies that clients over TCP show.
        is_default: whether it listens where it is looked for anyway.
    """
    place = next((name for name in summary.adapters if name.partition(":")[0] in {"unix", "tcp"}), "")
    to = "" if is_default else f" --to {shlex.quote(place)}"
    has_token = token_file is not None and place.startswith("tcp:")
    if has_token:
        to += f" --token-file {shlex.quote(token_file or '')}"
    ours = [each for each in summary.capabilities if each.id not in _BUILT_IN and each.handles]
    shown = ours[0].handles[0].partition(":")[2] if ours else "Memory.Set"
    ping = '{"kind":"query","type":"Syscall.Ping","metadata":{"id":"1","timestamp":0}}'
    pipe = "" if has_token else plug(place)
    lines = [
        f"{program} describe{to}",
        f"{program} describe {shown}{to}",
        f"{program} call Memory.Set key=greeting value=hello{to}",
        f"{program} call Memory.Get key=greeting{to}",
        *([f"echo '{ping}' | {pipe}"] if pipe else []),
    ]
    return "\n".join(["try, from another terminal:", *(f"  {line}" for line in lines)])


def plug(place: str, which: Callable[[str], str | None] = shutil.which) -> str:
    """The command that connects a terminal with a socket: one that is here; empty where there is none."""
    scheme, _, rest = place.partition(":")
    if not which("nc"):
        if not which("socat"):
            return ""
        return f"socat - {'UNIX-CONNECT' if scheme == 'unix' else 'TCP'}:{shlex.quote(rest)}"
    host, _, port = rest.rpartition(":")
    return f"nc -N -U {shlex.quote(rest)}" if scheme == "unix" else f"nc -N {host.strip('[]')} {port}"
