"""Compiled modules of the package above."""
