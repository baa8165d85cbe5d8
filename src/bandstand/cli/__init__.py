"""The command line: what can be typed, what it goes by, and what is shown.

How the room is laid out: `parsing` has the words, `letterwords` those of `dead`, `options` what several of them share, `actions` does what was typed. `settings` puts together flags,
variables and file, of which `keys` knows all there are; `configuring` shows them. `target` is the node that is asked. Each command
has a module: `calling`, `describing`, `tailing`, `letters`, `looking`, `tracing`, `benching`, `completing`. `arguments` makes data of words, with what
`reading` finds in a schema; `showing` makes words of descriptions; `terminal` knows colours, and `exits` what the exit codes mean.
"""

from bandstand.cli.parsing import make_parser as make_parser

__all__ = ("make_parser",)
