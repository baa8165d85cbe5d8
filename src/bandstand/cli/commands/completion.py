"""Completion of command lines in a shell.

The shell calls the command itself with the words so far, so there is only one list of commands and options. Types and fields come from
the running node. Completion must be fast and silent: on any error, it offers nothing.
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
        EventDescription,
        MessageDescription,
    )

__all__ = ("candidates", "complete", "script_for")

# The timeout of requests to the node: the user waits for it after pressing a key.
_TIMEOUT: Final = 0.4

# The commands that take types as arguments, with the kinds of those types.
_KINDS: Final = {
    "call": ("command", "query"),
    "query": ("query",),
    "emit": ("event",),
    "bench": ("command", "query"),
    "describe": ("command", "query", "event", "capability"),
    "tail": ("command", "query", "event"),
}

_BASH: Final = """# bandstand completion for bash
_bandstand() {
    # Not COMP_WORDS: bash splits them at colons, which addresses contain.
    local line="${COMP_LINE:0:COMP_POINT}" words
    read -ra words <<< "$line"
    case "$line" in *[[:space:]]) words+=("") ;; esac
    local IFS=$'\\n'
    COMPREPLY=($(bandstand __complete "${words[@]:1}" 2>/dev/null))
    case "${COMPREPLY[0]}" in *=) compopt -o nospace 2>/dev/null || : ;; esac
}
complete -o default -F _bandstand bandstand
"""

_ZSH: Final = """#compdef bandstand
_bandstand() {
    local -a found
    found=("${(@f)$(bandstand __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    found=("${(@)found:#}")
    (( ${#found} )) && compadd -- "${found[@]}" || _files
}
if [ "$funcstack[1]" = "_bandstand" ]; then _bandstand "$@"; else compdef _bandstand bandstand; fi
"""

_FISH: Final = """# bandstand completion for fish
function __bandstand_complete
    set -l words (commandline -opc) (commandline -ct)
    bandstand __complete $words[2..-1] 2>/dev/null
end
complete -c bandstand -f -a '(__bandstand_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def script_for(shell: Literal["bash", "zsh", "fish"]) -> str:
    """Return the completion script for a shell."""
    return _SCRIPTS[shell]


def candidates(words: Sequence[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the completions of the last word; none on any error."""
    *before, typed = list(words) or [""]
    try:
        with redirect_stderr(StringIO()):
            found = sorted(set(_candidates(before, typed, parser)))
    except (Exception, SystemExit):  # noqa: BLE001  # no error may disturb the user at the prompt
        return []
    # A shell could interpret control characters.
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
    options = {name: action for action in parser._actions for name in action.option_strings}  # noqa: SLF001  # argparse has no public access to them
    awaited = options.get(rest[-1]) if rest else None
    if awaited is not None and awaited.nargs != 0:
        yield from (str(each) for each in awaited.choices or ())
    elif typed.startswith("-"):
        yield from options
    elif path and path[0] in _KINDS:
        yield from _from_node(path[0], rest, options)
    else:
        for action in parser._actions:  # noqa: SLF001  # argparse has no public access to them
            if not action.option_strings:
                yield from (str(each) for each in action.choices or ())


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser] | None:
    for action in parser._actions:  # noqa: SLF001  # argparse has no public access to them
        # Only the choices of subcommands are a dict, from names to parsers.
        found: object = action.choices
        if isinstance(found, dict):
            return cast("dict[str, argparse.ArgumentParser]", found)
    return None


def _from_node(command: str, rest: list[str], options: dict[str, argparse.Action]) -> Iterator[str]:
    """Return types, or the fields of the type that the command line already has."""
    plain, given = _split_options(rest, options)
    if not plain or command == "tail":
        described = _describe(given, {})
        kinds = _KINDS[command]
        for each in described.capabilities:
            if "capability" in kinds:
                yield each.id
            yield from (message.type for message in _messages(each) if message.kind in kinds)
    elif command in {"call", "query", "emit", "bench"}:
        typed = {word.partition("=")[0] for word in plain[1:]}
        for each in _describe(given, {"type": plain[0]}).capabilities:
            for message in _messages(each):
                if message.type == plain[0]:
                    fields: dict[str, object] = message.schema.get("properties", {})
                    yield from (f"{name}=" for name in fields if name not in typed)


def _messages(capability: CapabilityDescription) -> Iterator[MessageDescription | EventDescription]:
    yield from capability.handles
    yield from capability.emits
    # Clients can emit what a capability subscribes to.
    yield from capability.subscribes


def _split_options(rest: list[str], options: dict[str, argparse.Action]) -> tuple[list[str], dict[str, str]]:
    """Return the words that are not options, and the options with their values."""
    plain: list[str] = []
    given: dict[str, str] = {}
    words = iter(rest)
    for word in words:
        action = options.get(word)
        if action is None:
            plain.append(word)
        elif action.nargs != 0:
            given[word] = next(words, "")
    return plain, given


def _describe(given: dict[str, str], wanted: dict[str, str]) -> Description:
    from dataclasses import replace

    from bandstand.bus.client.blocking import connect_blocking
    from bandstand.cli.commands.describe import read_description
    from bandstand.cli.settings import read_settings

    target = read_settings({"address": given.get("--to")}, given.get("--config")).target()
    config = replace(target.config(), connect_timeout=_TIMEOUT, timeout=_TIMEOUT)
    with connect_blocking(target.address, config) as bus:
        return read_description(bus.exchange("query", "Syscall.Describe", wanted))


def complete(words: Sequence[str], parser: argparse.ArgumentParser, _options: object = None) -> int:
    """Print the completions of the last word, one per line, and return the exit code."""
    sys.stdout.write("".join(f"{each}\n" for each in candidates(words, parser)))
    return 0
