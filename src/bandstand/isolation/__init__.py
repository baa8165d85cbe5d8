"""Runs capabilities of the bus in separate processes, by configuration alone.

    async with Node([Greeter, isolated(Painter), isolated(provide(Resizer, "fast"))]) as node:
        ...

However such a process ends (an exception, `os._exit`, a signal, a crash in C code, no memory left), one capability has failed once: its
current request is answered with `Sys.ActorCrash`, waiting messages are kept, the capability is restarted by its policy, and
nothing else on the node is affected. What the capability can do is the same as on the node.

The bus knows that a capability may have another host, but not what a process is; `bandstand.pod` knows processes and links, but not
capabilities. This package joins them: a child process of `pod.process`, and a `Link` of `pod.link` between two actors. The methods of these
actors are the protocol.

    launch   `isolated`: pickles a capability, and starts its processes
    host     the node's side: the host of a capability, and the actor that takes what the process sends
    child    the child's side: the parts of a node that one capability needs, and the actor that takes what the node sends
"""

from bandstand.isolation.launch import isolated as isolated

__all__ = ("isolated",)
