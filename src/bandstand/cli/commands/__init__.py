"""The commands that connect to a node, and completion: one module each, imported when the command runs."""
