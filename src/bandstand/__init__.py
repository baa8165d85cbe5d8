"""Supervised actors for Python.

A map of the house. An upper floor may import any lower one; everyone enters a room by its front door:

    testing    the rehearsal room: virtual time; no production module imports it
    __main__   argument parsing only
    app        the only file that knows every room, and joins them
    supervise  who restarts whom: specs, the arithmetic of restarts, supervisors
    core       the loop: ids, mailboxes, lanes, run queue, timing wheel, scheduler, clock, observer
    errors     one exception tree, drawn at the top of the file
    mode       which twin of the hot modules runs, compiled or interpreted
"""

__all__ = ("__version__",)

__version__ = "0.1.0"
