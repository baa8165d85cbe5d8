"""The annex of a node: one capability, in another process.

What performs a capability on a node performs it here: the same seat with the same handlers, the same outlet, the same checks of what it says. So a
capability cannot tell where it is, and nothing of that had to be written twice. What is different is the router. It has no routes: whatever the
capability says, to itself too, goes up the passage to the node, whose router sees everything and decides alone; it only keeps what the
capability waits for. (A whole node would be the other way to do it. It would answer `Syscall` and `Timer` itself, deliver the capability's own
events to it a second time, and have a log, a health and a supervisor of which nobody knows.)

There is one incarnation here and no supervisor: when it fails, that is said, and the process ends; whether there is a next one, the node decides. Deadlines
are the node's too, but for a Worker's: what it has not answered in time has to be forgotten here as well.
"""
