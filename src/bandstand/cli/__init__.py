"""The `bandstand` command.

`parser` defines the commands, their options and their help, and runs them; `commands` has one module for each of them. `settings`
reads flags, environment variables and the settings file. `arguments` converts the words of a command line to the data of a
message, with `schema_reader`, which reads JSON Schemas. `output` formats text for terminals and defines the exit codes.
"""

from bandstand.cli.parser import make_parser as make_parser

__all__ = ("make_parser",)
