"""Completion: what may come next on a command line.

The shell asks the command itself, so there is one list of commands and options. Types are asked of the node that would be called, quickly:
whoever presses a key must not wait, and must not be told what is wrong. If anything is, nothing is offered.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr
from io import StringIO
from typing import TYPE_CHECKING, Final, Literal, cast

if TYPE_CHECKING:
    from bandstand.bus.contracts.describe import (
        CapabilityDescription,
        Description,
        MessageDescription,
        SaidDescription,
    )

__all__ = ("HIDDEN", "candidates", "complete", "script_for")

HIDDEN: Final = "__complete"
"""The command that shells ask: it is followed by the words so far, the last of which is being typed."""

# How long somebody who has pressed a key waits for a node.
QUICK_MS = 400

# What each command's words are the types of.
ASKED: Final = {
    "call": ("command", "query"),
    "query": ("query",),
    "emit": ("event",),
    "bench": ("command", "query"),
    "describe": ("command", "query", "event", "capability"),
    "tail": ("command", "query", "event"),
}

BASH = """# bandstand completion for bash
_bandstand() {
    # Not COMP_WORDS: bash cuts those at colons, and addresses have some.
    local line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=("") ;; esac
    local IFS=$'\\n'
    COMPREPLY=($(bandstand __complete "${words[@]:1}" 2>/dev/null))
    case "${COMPREPLY[0]}" in *=) compopt -o nospace 2>/dev/null || : ;; esac
}
complete -o default -F _bandstand bandstand
"""

ZSH = """#compdef bandstand
_bandstand() {
    local -a found
    found=("${(@f)$(bandstand __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    (( ${#found} )) && compadd -- "${found[@]}" || _files
}
if [ "$funcstack[1]" = "_bandstand" ]; then _bandstand "$@"; else compdef _bandstand bandstand; fi
"""

FISH = """# bandstand completion for fish
function __bandstand_complete
    set -l words (commandline -opc) (commandline -ct)
    bandstand __complete $words[2..-1] 2>/dev/null
end
complete -c bandstand -f -a '(__bandstand_complete)'
"""

SCRIPTS: Final = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def script_for(shell: Literal["bash", "zsh", "fish"]) -> str:
    """What a shell is to be told."""
    return SCRIPTS[shell]


def candidates(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """What the last of these words may become. Nothing, if anything is wrong."""
    *before, typed = list(words) or [""]
    try:
        with redirect_stderr(StringIO()):
            found = sorted(set(_candidates(before, typed, parser)))
    except (Exception, SystemExit):  # noqa: BLE001  # somebody has only pressed a key
        return []
    # What a shell could take for something else than one word of a type or a field is not offered.
    return [each for each in found if each.startswith(typed) and each.isprintable()]


def _candidates(before: list[str], typed: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    path: list[str] = []
    rest = list(before)
    while rest and (inner := _subparsers(parser)) is not None:
        word = rest.pop(0)
        if word in inner:
            parser = inner[word]
            path.append(word)
    inner = _subparsers(parser)
    if inner is not None and not typed.startswith("-"):
        yield from inner
        return
    options = {name: action for action in parser._actions for name in action.option_strings}  # noqa: SLF001  # argparse tells nobody else
    awaited = options.get(rest[-1]) if rest else None
    if awaited is not None and awaited.nargs != 0:
        yield from (str(each) for each in awaited.choices or ())
    elif typed.startswith("-"):
        yield from options
    elif path and path[0] in ASKED:
        yield from _of_node(path[0], rest, options)
    else:
        for action in parser._actions:  # noqa: SLF001  # likewise
            if not action.option_strings:
                yield from (str(each) for each in action.choices or ())


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:  # noqa: SLF001  # argparse tells nobody else
        # Of all actions that offer a choice, this one has parsers behind the words.
        found: object = action.choices
        if isinstance(found, dict):
            return cast("dict[str, argparse.ArgumentParser]", found)
    return None


def _of_node(command: str, rest: list[str], options: dict[str, argparse.Action]) -> Iterator[str]:
    """Types, or the fields of a type that is there already."""
    plain, to = _sorted_out(rest, options)
    if not plain or command == "tail":
        described = _ask(to, {})
        kinds = ASKED[command]
        for each in described.capabilities:
            if "capability" in kinds:
                yield each.id
            yield from (said.type for said in _said(each) if said.kind in kinds)
    elif command in {"call", "query", "emit", "bench"}:
        given = {word.partition("=")[0] for word in plain[1:]}
        for each in _ask(to, {"type": plain[0]}).capabilities:
            for said in _said(each):
                if said.type == plain[0]:
                    fields: dict[str, object] = said.schema.get("properties", {})
                    yield from (f"{name}=" for name in fields if name not in given)


def _said(capability: CapabilityDescription) -> Iterator[MessageDescription | SaidDescription]:
    yield from capability.handles
    yield from capability.emits
    # What it listens to may come from here as well.
    yield from capability.subscribes


def _sorted_out(rest: list[str], options: dict[str, argparse.Action]) -> tuple[list[str], dict[str, str]]:
    """The words that are no options, and the options that say which node."""
    plain: list[str] = []
    said: dict[str, str] = {}
    words = iter(rest)
    for word in words:
        action = options.get(word)
        if action is None:
            plain.append(word)
        elif action.nargs != 0:
            said[word] = next(words, "")
    return plain, said


def _ask(said: dict[str, str], wanted: dict[str, str]) -> Description:
    from dataclasses import replace

    from bandstand.bus.client.blocking import connect_blocking
    from bandstand.cli.describing import read_description
    from bandstand.cli.settings import read_settings

    target = read_settings({"address": said.get("--to")}, said.get("--config")).target()
    quick = replace(target.config(), dial_ms=QUICK_MS, timeout_ms=QUICK_MS)
    with connect_blocking(target.address, quick) as bus:
        return read_description(bus.exchange("query", "Syscall.Describe", wanted))


def complete(words: Sequence[str], parser: argparse.ArgumentParser, _options: object = None) -> int:
    """Print what the last word may become, a line each; 0."""
    sys.stdout.write("".join(f"{each}\n" for each in candidates(words, parser)))
    return 0
