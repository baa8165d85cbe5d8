"""A process of our own: started, talked to, watched, ended.

    child = await spawn_child("painting:paint", name="painter", payload=colours)
    child.control.send(Brush(3))
    letter = await child.control.receive()
    exit = await child.wait()                     # "killed by SIGSEGV (segmentation fault)"

What runs in it is a coroutine function of some module, `async def paint(control, colours)`. The process is a fresh interpreter of the
same program; it never outlives the one that has started it, it never stays behind as a zombie, and however it ends is an `Exit`
with a reason.

How the folder is laid out: `parent` starts it and holds it, `child` is its main function, `errand` what the two tell each other about
that, `script` the program they both belong to; `control` is the channel between them, made of `letters` and `outgoing`, packed by
`pickling`; `watch` notices the end, `exits` says what it was. `player` runs a pod in a process, and
`words` are what it and the kubelet say.
"""

from bandstand.pod.process.control import Control as Control
from bandstand.pod.process.exits import Exit as Exit
from bandstand.pod.process.letters import Letter as Letter
from bandstand.pod.process.parent import Child as Child
from bandstand.pod.process.parent import spawn_child as spawn_child
from bandstand.pod.process.script import check_guarded as check_guarded

__all__ = ("Child", "Control", "Exit", "Letter", "check_guarded", "spawn_child")
