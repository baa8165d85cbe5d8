"""Child processes of the same program, with a control channel to each.

    child = await spawn_child("painting:paint", name="painter", payload=colours)
    child.control.send(Brush(3))
    message = await child.control.receive()
    exit = await child.wait()                     # "killed by SIGSEGV (segmentation fault)"

The child is a fresh interpreter that runs a coroutine function of some module, `async def paint(control, colours)`. It never
outlives its parent and never stays behind as a zombie. However it ends, the parent gets a `ProcessExit` with a reason.

`parent` starts and watches a child, `child` is its main function, `main_module` loads the program's `__main__` there, and
`control` is the channel between the two.
"""

from bandstand.pod.process.control import ControlChannel as ControlChannel
from bandstand.pod.process.control import ControlMessage as ControlMessage
from bandstand.pod.process.main_module import check_main_guard as check_main_guard
from bandstand.pod.process.parent import ChildProcess as ChildProcess
from bandstand.pod.process.parent import ProcessExit as ProcessExit
from bandstand.pod.process.parent import spawn_child as spawn_child

__all__ = (
    "ChildProcess",
    "ControlChannel",
    "ControlMessage",
    "ProcessExit",
    "check_main_guard",
    "spawn_child",
)
